/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * saves.c -- a program to be killed: saves as they are made, a few megabytes each
 *
 *     saves BASE OPERATIONS
 *
 * What writer.py is, in C and with more calls: one operation a line, `write 500 7` being 500
 * bytes that depend on 7, taken out of BASE as writer.data does. The number of each is said on
 * standard output when it is done; those that leave bytes in stdio's buffer say nothing.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASE (4u << 20)

static const char *base;
static int fd = -1;
static FILE *stream;

/* A fresh buffer each time: what is captured must be what was there when write returned. */
static char *data(unsigned long n, unsigned long seed)
{
    char *buffer = malloc(n + 1);

    for (unsigned long done = 0, at = seed * 40961 % (1u << 20); done < n; at = 0) {
        unsigned long part = n - done < BASE - at ? n - done : BASE - at;
        memcpy(buffer + done, base + at, part);
        done += part;
    }
    return buffer;
}

static void must(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "saves: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void put(const char *op, unsigned long n, unsigned long seed, unsigned long place)
{
    char *bytes = data(n, seed);
    struct iovec parts[] = {
        {bytes, n / 3}, {bytes + n / 3, n / 2}, {bytes + n / 3 + n / 2, n - n / 3 - n / 2}};
    long done = 0;

    if (strcmp(op, "write") == 0)
        done = write(fd, bytes, n);
    else if (strcmp(op, "writev") == 0)
        done = writev(fd, parts, 3);
    else if (strcmp(op, "patch") == 0)
        done = pwrite(fd, bytes, n, (off_t)place);
    else if (strcmp(op, "fwrite") == 0)
        done = (long)fwrite(bytes, 1, n, stream);
    else if (fseek(stream, (long)place, SEEK_SET) == 0) {
        done = (long)fwrite(bytes, 1, n, stream);
        must(fseek(stream, 0, SEEK_END) == 0, "fseek");
    }
    must(done == (long)n, op);
    memset(bytes, 'x', n);
    free(bytes);
}

/* Its length and a sum of its bytes, as another open finds them. */
static void sum(const char *path)
{
    static unsigned char buffer[1 << 16];
    uint64_t hash = 14695981039346656037u;
    int in = open(path, O_RDONLY | O_CLOEXEC);
    long n, length = 0;

    must(in >= 0, path);
    for (; (n = read(in, buffer, sizeof(buffer))) > 0; length += n)
        for (long i = 0; i < n; i++)
            hash = (hash ^ buffer[i]) * 1099511628211u;
    close(in);
    must(n == 0, path);
    dprintf(1, "%s: %ld %llx\n", path, length, (unsigned long long)hash);
}

static void size(const char *path)
{
    struct stat status;

    must(stat(path, &status) == 0, path);
    dprintf(1, "%s: %lld\n", path, (long long)status.st_size);
}

static void child(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    must(pid > 0 && waitpid(pid, NULL, 0) == pid, "fork");
}

/* Whether it says nothing. */
static int run(const char *op, const char *a, const char *b, const char *c)
{
    unsigned long n = strtoul(a, NULL, 10), seed = strtoul(b, NULL, 10),
                  place = strtoul(c, NULL, 10);

    if (strcmp(op, "mkdir") == 0)
        must(mkdir(a, 0755) == 0, a);
    else if (strcmp(op, "rmdir") == 0)
        must(rmdir(a) == 0, a);
    else if (strcmp(op, "unlink") == 0)
        must(unlink(a) == 0, a);
    else if (strcmp(op, "rename") == 0)
        must(rename(a, b) == 0, a);
    else if (strcmp(op, "open") == 0)
        must((fd = open(a, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644)) >= 0, a);
    else if (strcmp(op, "truncate") == 0)
        must(ftruncate(fd, (off_t)n) == 0, op);
    else if (strcmp(op, "fsync") == 0)
        must(fsync(fd) == 0, op);
    else if (strcmp(op, "close") == 0)
        must(close(fd) == 0, op);
    else if (strcmp(op, "fopen") == 0)
        must((stream = fopen(a, "we")) != NULL, a);
    else if (strcmp(op, "fclose") == 0)
        must(fclose(stream) == 0, op);
    else if (strcmp(op, "sum") == 0)
        sum(a);
    else if (strcmp(op, "size") == 0)
        size(a);
    else if (strcmp(op, "fork") == 0)
        child();
    else if (strcmp(op, "pause") == 0)
        usleep(n * 1000);
    else
        put(op, n, seed, place);
    return strcmp(op, "fopen") == 0 || strcmp(op, "fwrite") == 0 || strcmp(op, "fpatch") == 0;
}

int main(int argc, char **argv)
{
    int number = 0, file = argc == 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    FILE *list = argc == 3 ? fopen(argv[2], "re") : NULL;
    char line[512];

    must(file >= 0 && list != NULL, "usage: saves BASE OPERATIONS");
    base = mmap(NULL, BASE, PROT_READ, MAP_PRIVATE, file, 0);
    must(base != MAP_FAILED, "mmap");
    for (; fgets(line, sizeof(line), list) != NULL; number++) {
        char op[16] = "", a[160] = "", b[160] = "", c[24] = "";
        sscanf(line, "%15s %159s %159s %23s", op, a, b, c);
        if (!run(op, a, b, c))
            dprintf(1, "%d\n", number);
    }
    return 0; /* with what is still open */
}
