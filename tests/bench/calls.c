/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.c -- what calls cost that have nothing to do with checkpoints
 *
 *     calls DIRECTORY ROUNDS <LIST
 *
 * Reads names of files from standard input, a line each, and prints a line of JSON:
 * of each kind of call the nanoseconds that one takes, and how many of them are due
 * to a preloaded library. For the latter, batches of the call as any program makes
 * it and batches of libc's own function take turns in this one process: between
 * processes a core's speed differs by more than what is sought.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CALLS 500
#define NAMES 512

struct functions {
    ssize_t (*write)(int, const void *, size_t);
    ssize_t (*read)(int, void *, size_t);
    int (*open)(const char *, int, ...);
    int (*close)(int);
    int (*stat)(const char *, struct stat *);
};

static char *names[NAMES];
static int count, pipe_ends[2], file;

static void need(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *own(void *libc, const char *name)
{
    void *found = dlsym(libc, name);

    need(found != NULL, name);
    return found;
}

static int pipe_write(const struct functions *f)
{
    for (int i = 0; i < CALLS; i++)
        need(f->write(pipe_ends[1], "x", 1) == 1, "write");
    return CALLS;
}

/* After as many of the above. */
static int pipe_read(const struct functions *f)
{
    char byte;

    for (int i = 0; i < CALLS; i++)
        need(f->read(pipe_ends[0], &byte, 1) == 1, "read");
    return CALLS;
}

static int file_write(const struct functions *f)
{
    need(lseek(file, 0, SEEK_SET) == 0, "lseek");
    for (int i = 0; i < CALLS; i++)
        need(f->write(file, "x", 1) == 1, "write");
    return CALLS;
}

static int file_read(const struct functions *f)
{
    char byte;

    need(lseek(file, 0, SEEK_SET) == 0, "lseek");
    for (int i = 0; i < CALLS; i++)
        need(f->read(file, &byte, 1) == 1, "read");
    return CALLS;
}

static int open_close(const struct functions *f)
{
    for (int i = 0; i < count; i++) {
        int fd = f->open(names[i], O_RDONLY | O_CLOEXEC);
        need(fd >= 0, names[i]);
        f->close(fd);
    }
    return count;
}

static int stats(const struct functions *f)
{
    struct stat status;

    for (int i = 0; i < count; i++)
        need(f->stat(names[i], &status) == 0, names[i]);
    return count;
}

static const struct {
    const char *name;
    int (*batch)(const struct functions *);
} kinds[] = {
    {"pipe write", pipe_write}, {"pipe read", pipe_read},   {"file write", file_write},
    {"file read", file_read},   {"open+close", open_close}, {"stat", stats},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double middle(double *values, int number)
{
    qsort(values, (size_t)number, sizeof(*values), order);
    return values[number / 2];
}

int main(int argc, char **argv)
{
    static const struct functions any = {write, read, open, close, stat};
    struct functions libc_own;
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    double *took[KINDS], *added[KINDS];
    char line[4096];
    void *libc;

    if (rounds < 1) {
        fprintf(stderr, "usage: calls DIRECTORY ROUNDS <LIST\n");
        return 2;
    }
    while (count < NAMES && fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        need((names[count++] = strdup(line)) != NULL, "strdup");
    }
    need(count > 0, "no names");
    need(pipe(pipe_ends) == 0, "pipe");
    /* As a checkpoint begins, or a log: what is not yet known to be neither. */
    snprintf(line, sizeof(line), "%s/small", argv[1]);
    file = open(line, O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(file >= 0, line);
    libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    need(libc != NULL, "libc.so.6");
    libc_own.write = (ssize_t(*)(int, const void *, size_t))(uintptr_t)own(libc, "write");
    libc_own.read = (ssize_t(*)(int, void *, size_t))(uintptr_t)own(libc, "read");
    libc_own.open = (int (*)(const char *, int, ...))(uintptr_t)own(libc, "open");
    libc_own.close = (int (*)(int))(uintptr_t)own(libc, "close");
    libc_own.stat = (int (*)(const char *, struct stat *))(uintptr_t)own(libc, "stat");

    for (size_t kind = 0; kind < KINDS; kind++) {
        need((took[kind] = calloc((size_t)rounds, sizeof(double))) != NULL, "calloc");
        need((added[kind] = calloc((size_t)rounds, sizeof(double))) != NULL, "calloc");
    }
    for (int round = -1; round < rounds; round++) {
        for (size_t kind = 0; kind < KINDS; kind++) {
            uint64_t began = now(), between;
            int calls = 0, first = (round + (int)kind) & 1;

            calls = kinds[kind].batch(first ? &any : &libc_own);
            between = now();
            kinds[kind].batch(first ? &libc_own : &any);
            if (round >= 0) {
                double one = (double)(between - began) / calls,
                       two = (double)(now() - between) / calls;
                took[kind][round] = first ? one : two;
                added[kind][round] = first ? one - two : two - one;
            }
        }
    }
    for (size_t kind = 0; kind < KINDS; kind++)
        printf("%s\"%s\": {\"ns\": %.1f, \"added\": %.1f}", kind == 0 ? "{" : ", ",
               kinds[kind].name, middle(took[kind], rounds), middle(added[kind], rounds));
    printf("}\n");
    unlink(line);
    return 0;
}
