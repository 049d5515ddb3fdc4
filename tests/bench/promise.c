/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * promise.c -- what the kernel takes for memory that shows the ring
 *
 *     promise MEBIBYTES ROUNDS
 *
 * The same calls as preload/promise.c, by the same look at page tables, on pieces of 4 MiB of
 * memory that is there: a private mapping of a part of a memfd over it, which pages of it are the
 * process's own, and a copy of each page. Prints a line of JSON: lists of seconds per GiB; copy:
 * one memcpy.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client/pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define PIECE ((size_t)4 << 20)
#define MOST 64

static void need(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

enum step { COPY, MAP, SCAN, SETTLE, STEPS };

static void step(enum step step, const struct portus_source *source, char *to, int ring,
                 const char *data, size_t at)
{
    uintptr_t start = (uintptr_t)(to + at), from, end;

    if (step == COPY)
        memcpy(to + at, data + at, PIECE);
    else if (step == MAP)
        need(mmap(to + at, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, ring,
                  (off_t)at) != MAP_FAILED,
             "mmap");
    else if (step == SCAN)
        need(portus_pages_own(source, start, start + PIECE, &from, &end) == 0,
             "a page is not the ring's");
    else
        need(madvise(to + at, PIECE, MADV_POPULATE_WRITE) == 0, "MADV_POPULATE_WRITE");
}

int main(int count, char **arguments)
{
    static const char *const names[STEPS] = {"copy", "map", "scan", "settle"};
    struct portus_source source;
    static double took[STEPS][MOST];
    size_t size;
    unsigned rounds;
    char *to, *data;
    int ring;

    need(count == 3, "promise MEBIBYTES ROUNDS");
    size = (strtoull(arguments[1], NULL, 10) << 20) / PIECE * PIECE;
    rounds = (unsigned)strtoul(arguments[2], NULL, 10);
    need(size != 0 && rounds != 0 && rounds <= MOST, "promise MEBIBYTES ROUNDS");
    ring = memfd_create("ring", MFD_CLOEXEC);
    need(ring >= 0 && ftruncate(ring, (off_t)size) == 0, "memfd_create");
    data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
    need(data != MAP_FAILED, "mmap");
    memset(data, 1, size);
    portus_source_open(&source);
    for (unsigned round = 0; round < rounds; round++) {
        to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        need(to != MAP_FAILED, "mmap");
        memset(to, 2, size);
        for (enum step s = 0; s < STEPS; s++) {
            double began = now();

            for (size_t at = 0; at < size; at += PIECE)
                step(s, &source, to, ring, data, at);
            took[s][round] = (now() - began) * (double)(1ull << 30) / (double)size;
        }
        munmap(to, size);
    }
    for (enum step s = 0; s < STEPS; s++) {
        printf("%s\"%s\": [", s == 0 ? "{" : ", ", names[s]);
        for (unsigned round = 0; round < rounds; round++)
            printf("%s%.6f", round == 0 ? "" : ", ", took[s][round]);
        printf("]");
    }
    printf("}\n");
    return 0;
}
