/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * futex.h -- waiting for a word in shared memory, and a small lock on top of it
 *
 * The lock is private to a process, has no destructor and needs no set-up beyond
 * zeroes. It is not pthread's because it must be usable inside interposed calls
 * before libpthread is ready, and be reset in a forked child.
 */
#ifndef PORTUS_FUTEX_H
#define PORTUS_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Waits while *word is value, at most that many milliseconds; may return early. Shared. */
static inline void portus_futex_wait(_Atomic uint32_t *word, uint32_t value, unsigned milliseconds)
{
    struct timespec limit = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    int saved = errno;

    syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
    errno = saved;
}

static inline void portus_futex_wake(_Atomic uint32_t *word)
{
    int saved = errno;

    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    errno = saved;
}

/* Advances *word and wakes all who wait for it. */
static inline void portus_futex_advance(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    portus_futex_wake(word);
}

struct portus_lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody waits */
};

static inline bool portus_trylock(struct portus_lock *lock)
{
    uint32_t free = 0;

    return atomic_compare_exchange_strong(&lock->word, &free, 1);
}

static inline void portus_lock(struct portus_lock *lock)
{
    if (portus_trylock(lock))
        return;
    while (atomic_exchange(&lock->word, 2) != 0)
        syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static inline void portus_unlock(struct portus_lock *lock)
{
    if (atomic_exchange(&lock->word, 0) == 2)
        syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline int64_t portus_nanoseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static inline uint64_t portus_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)portus_nanoseconds(&now);
}

#endif
