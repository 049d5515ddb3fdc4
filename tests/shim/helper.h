/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper.h -- what the behaviour tests share
 *
 * A test is a program that works without the shim. tests/run runs it plain and
 * with the shim and compares what it prints, how it ends, and all its files.
 * So a test prints what a program can see: return values, sizes, digests.
 */
#ifndef TESTS_SHIM_HELPER_H
#define TESTS_SHIM_HELPER_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define BIG (3 * MIB + 17) /* large enough to be captured, and odd */

#define check(condition)                                                                           \
    ((condition) ? (void)0 : (void)die(__FILE__, __LINE__, #condition))
#define must(call)                                                                                 \
    __extension__({                                                                                \
        __auto_type value_ = (call);                                                               \
        check(value_ != (__typeof__(value_))-1);                                                   \
        value_;                                                                                    \
    })

static inline void die(const char *file, int line, const char *what)
{
    int error = errno;
    fflush(stdout);
    dprintf(2, "%s:%d: %s (errno: %s)\n", file, line, what, strerror(error));
    _exit(99);
}

/* Bytes that depend on seed and place. */
static inline void fill(void *to, size_t n, uint64_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
    for (size_t i = 0; i < n; i += 8) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy((char *)to + i, &x, n - i < 8 ? n - i : 8);
    }
}

static inline char *bytes(size_t n, uint64_t seed)
{
    char *p = malloc(n ? n : 1);
    check(p != NULL);
    fill(p, n, seed);
    return p;
}

static inline int create(const char *name)
{
    return must(open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644));
}

/* One write(2), which must take all of it. */
static inline void put(int fd, const void *from, size_t n)
{
    check(write(fd, from, n) == (ssize_t)n);
}

static inline void put_at(int fd, const void *from, size_t n, off_t at)
{
    check(pwrite(fd, from, n, at) == (ssize_t)n);
}

/* A whole file of n bytes. */
static inline void save(const char *name, size_t n, uint64_t seed)
{
    char *p = bytes(n, seed);
    int fd = create(name);
    put(fd, p, n);
    check(close(fd) == 0);
    free(p);
}

static inline uint64_t digest(const void *from, size_t n, uint64_t so_far)
{
    const unsigned char *p = from;
    uint64_t h = so_far ? so_far : 0xcbf29ce484222325ull;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

/* Prints length and digest of what can be read from fd at offset 0. */
static inline void show_fd(const char *title, int fd)
{
    static __thread char piece[65536];
    uint64_t h = 0, length = 0;
    ssize_t n;
    while ((n = must(pread(fd, piece, sizeof piece, (off_t)length))) > 0) {
        h = digest(piece, (size_t)n, h);
        length += (uint64_t)n;
    }
    printf("%s: %llu bytes, %016llx\n", title, (unsigned long long)length, (unsigned long long)h);
}

static inline void show(const char *name)
{
    int fd = must(open(name, O_RDONLY));
    show_fd(name, fd);
    close(fd);
}

static inline long long size_of(const char *name)
{
    struct stat st;
    must(stat(name, &st));
    return (long long)st.st_size;
}

/* A shell command in a process without the shim; returns its exit status. */
static inline int bare(const char *command)
{
    fflush(stdout);
    pid_t pid = must(fork());
    if (pid == 0) {
        unsetenv("LD_PRELOAD");
        execl("/bin/sh", "sh", "-c", command, (char *)0);
        _exit(127);
    }
    int status;
    must(waitpid(pid, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits for a child and prints how it ended. */
static inline void reap(const char *title, pid_t pid)
{
    int status;
    must(waitpid(pid, &status, 0));
    printf("%s: %s %d\n", title, WIFEXITED(status) ? "exit" : "signal",
           WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

#endif
