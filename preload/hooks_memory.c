/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_memory.c -- what a program does with memory that may be promised
 *
 * Promised memory is a mapping of a file, which some calls treat otherwise than memory without
 * one: thrown away, its pages show the ring's bytes again and not zeros; made longer, it would
 * show more of the ring. Pages that are handed to others are to be the process's own.
 *
 * No real function is looked up, as allocators call these while they hold locks of theirs. Nor is
 * a promise looked for before one was ever made: that needs more stack than some callers have.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/source.h"
#include "promise.h"
#include "real.h"

static bool throws_away(int advice)
{
    switch (advice) {
    case MADV_DONTNEED:
    case MADV_FREE:
    case 24:  /* MADV_DONTNEED_LOCKED, Linux 5.18 */
    case 102: /* MADV_GUARD_INSTALL, Linux 6.13 */
        return true;
    }
    return false;
}

EXPORT int madvise(void *start, size_t length, int advice)
{
    if (atomic_load_explicit(&promise_made, memory_order_relaxed)) {
        if (throws_away(advice) && ((uintptr_t)start & 4095) == 0)
            promise_end_range(start, length, false);
        if (advice == MADV_WIPEONFORK) /* not of a file */
            promise_end_range(start, length, true);
    }
    return (int)syscall(SYS_madvise, start, length, advice);
}

/* Where a header hides it. */
ssize_t process_madvise(int process, const struct iovec *vector, size_t count, int advice,
                        unsigned flags);

/* The process is mostly another one, and then this one's memory stays. */
EXPORT ssize_t process_madvise(int process, const struct iovec *vector, size_t count, int advice,
                               unsigned flags)
{
    if (atomic_load_explicit(&promise_made, memory_order_relaxed) && throws_away(advice))
        for (size_t i = 0; vector != NULL && i < count && i < IOV_MAX; i++)
            promise_end_range(vector[i].iov_base, vector[i].iov_len, true);
    return syscall(SYS_process_madvise, process, vector, count, advice, flags);
}

EXPORT int mprotect(void *start, size_t length, int protection)
{
    if (atomic_load_explicit(&promise_made, memory_order_relaxed))
        promise_settle_range(start, length);
    return (int)syscall(SYS_mprotect, start, length, protection);
}

EXPORT int pkey_mprotect(void *start, size_t length, int protection, int key)
{
    if (atomic_load_explicit(&promise_made, memory_order_relaxed))
        promise_settle_range(start, length);
    if (key > 0)
        atomic_store(&portus_source_keyed, true);
    return (int)syscall(SYS_pkey_mprotect, start, length, protection, key);
}

EXPORT void *mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
    va_list list;
    void *to, *moved;
    int saved = errno;

    va_start(list, flags);
    to = va_arg(list, void *);
    va_end(list);
    if (atomic_load_explicit(&promise_made, memory_order_relaxed) &&
        (length > old_length || (flags & MREMAP_DONTUNMAP))) {
        /* What may not move, others may write to meanwhile: it cannot be exchanged. */
        if (!(flags & MREMAP_MAYMOVE) && promise_any(old, old_length)) {
            errno = ENOMEM;
            return MAP_FAILED;
        }
        promise_end_range(old, old_length, true);
    }
    moved = (void *)syscall(SYS_mremap, old, old_length, length, flags, to);
    /* It takes one mapping, and what was promised is one of its own. */
    if (moved == MAP_FAILED && errno == EFAULT && promise_join(old, old_length)) {
        errno = saved;
        moved = (void *)syscall(SYS_mremap, old, old_length, length, flags, to);
    }
    return moved;
}

/* Where a header hides it. */
ssize_t vmsplice(int pipe, const struct iovec *vector, size_t count, unsigned flags);

EXPORT ssize_t vmsplice(int pipe, const struct iovec *vector, size_t count, unsigned flags)
{
    if (atomic_load_explicit(&promise_made, memory_order_relaxed))
        promise_settle();
    return syscall(SYS_vmsplice, pipe, vector, count, flags);
}
