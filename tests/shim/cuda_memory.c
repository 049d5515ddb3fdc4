/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_memory.c -- what a program does with the memory that a device was copied to
 * run: captures=2 referred=40 modes=default,ring,copied
 *
 * Right: it is ordinary memory: thrown away it is zeros, longer it ends in zeros, and locked,
 * protected, moved or written to it keeps its bytes, whatever becomes of the ring.
 */
#include <sys/syscall.h>

#include "cuda.h"

enum { SIZE = 3 * MIB };

static int fd;

static void thrown_away(int advice)
{
    char *to = anonymous(SIZE);

    copy(to, SIZE, 1);
    must(madvise(to + MIB, MIB, advice));
    if (advice == MADV_DONTNEED)
        check(zeros(to + MIB, MIB));
    memset(to + MIB, 7, MIB);
    churn(fd);
    check(stamped(to, MIB, 1) && to[MIB] == 7 && to[2 * MIB - 1] == 7);
    put(fd, to, SIZE);
    munmap(to, SIZE);
}

/* By this process for itself, which older kernels refuse. */
static void thrown_away_by_process(int by_number)
{
    char *to = anonymous(SIZE);
    struct iovec parts[] = {{to + MIB, MIB}};
    int self = must((int)syscall(SYS_pidfd_open, getpid(), 0));
    ssize_t done;

    copy(to, SIZE, 1);
    done = by_number ? syscall(SYS_process_madvise, self, parts, 1ul, MADV_DONTNEED, 0ul)
                     : process_madvise(self, parts, 1, MADV_DONTNEED, 0);
    check(done == MIB ? zeros(to + MIB, MIB) : stamped(to, SIZE, 1));
    memset(to + MIB, 7, MIB);
    churn(fd);
    check(stamped(to, MIB, 1) && to[MIB] == 7 && to[2 * MIB - 1] == 7);
    put(fd, to, SIZE);
    munmap(to, SIZE);
    close(self);
}

static void unmapped(void)
{
    char *to = anonymous(SIZE), *again;

    copy(to, SIZE, 2);
    munmap(to + MIB, MIB);
    again = mmap(to + MIB, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0);
    check(again == to + MIB && zeros(again, MIB));
    put(fd, to, SIZE);
    churn(fd);
    check(stamped(to, MIB, 2) && zeros(again, MIB));
    munmap(to, SIZE);
}

static void moved(size_t size)
{
    char *to = anonymous(SIZE), *there;

    copy(to, SIZE, 3);
    there = mremap(to, SIZE, size, MREMAP_MAYMOVE);
    check(there != MAP_FAILED);
    check(stamped(there, size < SIZE ? size : SIZE, 3));
    if (size > SIZE)
        check(zeros(there + SIZE, size - SIZE));
    churn(fd);
    check(stamped(there, size < SIZE ? size : SIZE, 3));
    put(fd, there, size);
    munmap(there, size);
}

/* By libc itself, unseen. */
static void moved_by_realloc(void)
{
    char *to = host(SIZE);

    copy(to, SIZE, 4);
    to = realloc(to, 16 * MIB);
    check(to != NULL && stamped(to, SIZE, 4));
    churn(fd);
    check(stamped(to, SIZE, 4));
    put(fd, to, SIZE);
    free(to);
}

static void guarded(int protection)
{
    char *to = anonymous(SIZE);

    copy(to, SIZE, 5);
    must(mprotect(to, SIZE, protection));
    churn(fd);
    must(mprotect(to, SIZE, PROT_READ | PROT_WRITE));
    check(stamped(to, SIZE, 5));
    put(fd, to, SIZE);
    munmap(to, SIZE);
}

static void locked(void)
{
    char *to = anonymous(SIZE);

    copy(to, SIZE, 6);
    if (mlock(to, MIB) == 0)
        must(munlock(to, MIB));
    churn(fd);
    check(stamped(to, SIZE, 6));
    put(fd, to, SIZE);
    munmap(to, SIZE);
    to = anonymous(SIZE);
    must(mlock(to, 16384));
    copy(to, SIZE, 7);
    check(!shown(to) && !shown(to + MIB));
    check(stamped(to, SIZE, 7));
    must(munlock(to, 16384));
    put(fd, to, SIZE);
    munmap(to, SIZE);
}

static void changed(void)
{
    char *to = anonymous(SIZE);

    copy(to, SIZE, 8);
    to[0] = to[5000] = to[MIB] = to[SIZE - 1] = 'x';
    memset(to + 2 * MIB, 'y', 12345);
    put(fd, to, SIZE);
    to[9000] = 'z';
    churn(fd);
    check(to[9000] == 'z' && to[5000] == 'x' && to[2 * MIB + 12344] == 'y');
    put(fd, to + 1, SIZE - 1);
    munmap(to, SIZE);
}

/* Pages that are in a pipe are what they were, whatever becomes of the memory. */
static void spliced(void)
{
    char *to = anonymous(SIZE), got[4096];
    struct iovec vector = {to + MIB, sizeof(got)};
    int pipes[2];

    must(pipe(pipes));
    copy(to, SIZE, 9);
    check(vmsplice(pipes[1], &vector, 1, 0) == sizeof(got));
    munmap(to, SIZE);
    churn(fd);
    check(read(pipes[0], got, sizeof(got)) == sizeof(got));
    check(stamped(got, sizeof(got), 9 + (uint32_t)(MIB / 4) * 2654435761u));
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    begin();
    fd = create("a.ckpt");
    thrown_away(MADV_DONTNEED);
    thrown_away(MADV_FREE);
    thrown_away_by_process(0);
    thrown_away_by_process(1);
    unmapped();
    moved(SIZE);
    moved(2 * MIB);
    moved(6 * MIB);
    moved_by_realloc();
    guarded(PROT_READ);
    guarded(PROT_NONE);
    locked();
    changed();
    spliced();
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
