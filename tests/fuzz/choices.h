/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choices.h -- what calls.c works on, how it chooses, and what it prints
 *
 * All draws of a call follow from the seed and the call's number: nothing that happened
 * before, nor what was left out, changes what it is.
 */
#ifndef TESTS_FUZZ_CHOICES_H
#define TESTS_FUZZ_CHOICES_H

#include "../shim/helper.h"
#include <stdarg.h>
#include <stdbool.h>

#define FDS 6
#define STREAMS 3
#define BASE (8 * MIB)
#define ONE_OF(array) (array)[pick(sizeof(array) / sizeof((array)[0]))]

static int fds[FDS] = {-1, -1, -1, -1, -1, -1};
static struct stream {
    FILE *file;
    uint64_t opened; /* by the call of that number, and not used since */
    bool reads;
} streams[STREAMS];
static char *edge; /* a MiB that may be read, before one that may not */
static char base[BASE], room[4 * MIB];
static uint64_t seed, state, number;
static size_t fds_used = FDS, names_used; /* by this seed */
static int depth;                         /* of children */
static char line[512];

static const char *const names[] = {"a.ckpt",     "b.pt",       "c.bin",     "d.txt",
                                    "dir/e.ckpt", "dir/f.json", "dir2/g.pt", "latest"};
static const char *const directories[] = {"dir", "dir2", "."};

/* --- choices --- */

static uint64_t draw(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static size_t pick(size_t n)
{
    return draw() % n;
}

/* Lengths around those at which something changes: pages, pieces, MIN_WRITE. */
static size_t length(void)
{
    switch (pick(9)) {
    case 0:
        return 1 + pick(16);
    case 1:
    case 2:
        return 1 + pick(4096);
    case 3:
        return 4096 * (1 + pick(40)) + pick(5) - 2;
    case 4:
        return 65536 * (1 + pick(16)) + pick(5) - 2;
    case 5:
    case 6:
        return MIB * (1 + pick(2)) + pick(9) - 4;
    case 7:
        return 1 + pick(3 * MIB);
    default:
        return MIB + 4096 * pick(300);
    }
}

static off_t place(void)
{
    switch (pick(20)) {
    case 0:
        return -(off_t)pick(3) - 1;
    case 1:
        return (off_t)1 << (50 + pick(13)); /* beyond any file */
    case 2:
    case 3:
    case 4:
    case 5:
        return 0;
    case 6:
    case 7:
        return (off_t)pick(100);
    default:
        return (off_t)length();
    }
}

/* Bytes to write; some begin as checkpoints do. */
static char *source(void)
{
    return base + (pick(3) == 0 ? pick(4) << 19 : pick(BASE / 2));
}

static const char *name(void)
{
    return pick(30) == 0 ? ONE_OF(directories) : names[pick(names_used)];
}

static int *slot(void)
{
    return &fds[pick(fds_used)];
}

static int descriptor(void)
{
    struct stream *s = &ONE_OF(streams);

    return pick(12) == 0 && s->file != NULL ? fileno(s->file) : *slot();
}

/* --- what is printed --- */

static void said(long long result, int error, const char *format, ...)
{
    int n = snprintf(line, sizeof(line), "%*s%llu ", depth * 4, "", (unsigned long long)number);
    va_list list;

    va_start(list, format);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, list);
    va_end(list);
    n += snprintf(line + n, sizeof(line) - (size_t)n, " = %lld %s\n", result,
                  error != 0 ? strerror(error) : "");
    check(write(1, line, (size_t)n) == n);
}

/* Makes a call and prints it. errno is the program's as well: it stays where all is well. */
#define CALL(call, ...)                                                                            \
    __extension__({                                                                                \
        errno = 0;                                                                                 \
        long long result_ = (long long)(call);                                                     \
        said(result_, errno, __VA_ARGS__);                                                         \
        result_;                                                                                   \
    })

static unsigned long long hash(const void *from, size_t n)
{
    uint64_t h = n, x;

    for (size_t i = 0; i < n; i += 8) {
        x = 0;
        memcpy(&x, (const char *)from + i, n - i < 8 ? n - i : 8);
        h = (h ^ x) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
    }
    return h;
}

static void said_bytes(long long n)
{
    if (n > 0)
        said(n, 0, "  bytes %016llx", hash(room, (size_t)n));
}

static void said_status(int result, const struct stat *s)
{
    if (result == 0)
        said(S_ISDIR(s->st_mode) ? 0 : s->st_size, 0, "  mode %o links %d%s", s->st_mode,
             S_ISDIR(s->st_mode) ? 0 : (int)s->st_nlink, s->st_mtime == 2000 ? " time as set" : "");
}

#endif
