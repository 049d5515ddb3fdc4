/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * saves.c -- does what it is told, step by step, and says what each call returned
 *
 *     saves BYTES STEPS
 *
 * BYTES is a file of random bytes; STEPS, one a line, are explained in steps.py. It
 * retries nothing (but the wait for a child) and stops at nothing: `step result errno` is all that
 * it does about an error. Each step is marked for inject.c. Handles are small numbers for
 * descriptors and streams, of which there is one or the other.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK 0x504f5254
#define END 1000 /* see inject.c */
#define SEEDS (1 << 20)
#define HANDLES 16

#define IS(name) (strcmp(what, name) == 0)

static char bytes[8 << 20], got[8 << 20], said[1 << 16];
static int fds[HANDLES];
static FILE *streams[HANDLES];

static char *data(long seed)
{
    return bytes + seed * 40961 % SEEDS;
}

static long child_mkdir(const char *path)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(mkdir(path, 0755) == 0 ? 0 : errno);
    if (pid < 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0) /* or it would not be known what it did */
        if (errno != EINTR)
            return -1;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
    return errno == 0 ? 0 : -1;
}

static long write_parts(int fd, long seed, long length)
{
    struct iovec part[3] = {{data(seed), 1000},
                            {data(seed) + 1000, length / 2},
                            {data(seed) + 1000 + length / 2, length - 1000 - length / 2}};

    return writev(fd, part, 3);
}

static long size_of(int fd, const char *path)
{
    struct stat status;

    return (fd < 0 && path != NULL ? stat(path, &status) : fstat(fd, &status)) < 0 ? -1
                                                                                   : status.st_size;
}

/* The bytes that are there, summed up so that no other ones give the same. */
static long look(int fd, long length, long offset)
{
    long number = pread(fd, got, length, offset);
    unsigned long sum = 0;

    for (long i = 0; i < number; i++)
        sum = (sum * 31 + (unsigned char)got[i]) % 1000000007;
    return number < 0 ? -1 : (long)sum;
}

static long do_step(const char *what, long handle, char *a, char *b, long x, long y)
{
    int *fd = &fds[handle];
    FILE **stream = &streams[handle];

    if (IS("open"))
        return (*fd = open(a, O_CREAT | O_TRUNC | O_RDWR, 0644)) < 0 ? -1 : 0;
    if (IS("write"))
        return write(*fd, data(x), y);
    if (IS("writev"))
        return write_parts(*fd, x, y);
    if (IS("pwrite"))
        return pwrite(*fd, data(x), y, atol(a));
    if (IS("seek"))
        return lseek(*fd, x, SEEK_SET);
    if (IS("end"))
        return lseek(*fd, 0, SEEK_END);
    if (IS("cut"))
        return ftruncate(*fd, x);
    if (IS("fstat"))
        return size_of(*fd, NULL);
    if (IS("look"))
        return look(*fd, y, x);
    if (IS("sync"))
        return fsync(*fd);
    if (IS("close"))
        return close(*fd);
    if (IS("fopen"))
        return (*stream = fopen(a, "w")) == NULL ? -1 : 0;
    if (IS("fwrite"))
        return *stream == NULL ? -1 : (long)fwrite(data(x), 1, y, *stream);
    if (IS("fseek"))
        return *stream == NULL ? -1 : fseek(*stream, x, SEEK_SET);
    if (IS("fflush"))
        return *stream == NULL ? -1 : fflush(*stream);
    if (IS("fclose"))
        return *stream == NULL ? -1 : fclose(*stream);
    if (IS("stat"))
        return size_of(-1, a);
    if (IS("rename"))
        return rename(a, b);
    if (IS("unlink"))
        return unlink(a);
    if (IS("onto"))
        return dup2(fds[x], *fd) < 0 ? -1 : 0;
    if (IS("chmod"))
        return chmod(a, (mode_t)x);
    if (IS("mkdir"))
        return mkdir(a, 0755);
    if (IS("pause"))
        return usleep((useconds_t)x * 1000);
    if (IS("child"))
        return child_mkdir(a);
    abort();
}

int main(int argc, char **argv)
{
    FILE *file = argc == 3 ? fopen(argv[1], "r") : NULL;
    size_t length = 0;
    char *at, *line, *next;

    if (file == NULL || fread(bytes, 1, sizeof(bytes), file) != sizeof(bytes))
        return 2;
    fclose(file);
    memset(fds, 0xff, sizeof(fds));
    at = strdup(argv[2]);
    for (int step = 0; (line = strtok_r(at, "\n", &next)) != NULL; step++, at = NULL) {
        char what[16], a[64] = "", b[64] = "";
        long handle = 0, x = 0, y = 0, result;

        sscanf(line, "%15s %ld %ld %ld %63s %63s", what, &handle, &x, &y, a, b);
        syscall(SYS_prctl, MARK, step, 0, 0, 0);
        errno = 0;
        result = do_step(what, handle, a, b, x, y);
        length += (size_t)snprintf(said + length, sizeof(said) - length, "%d %ld %d\n", step,
                                   result, result < 0 || IS("fwrite") ? errno : 0);
    }
    syscall(SYS_prctl, MARK, END, 0, 0, 0);
    return write(1, said, length) == (ssize_t)length ? 0 : 1;
}
