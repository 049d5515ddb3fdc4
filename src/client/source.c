/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * source.c -- whether the memory that a program writes from can be read
 *
 * MADV_POPULATE_READ answers for any memory, but visits each page: 45 ms for a GiB
 * of small pages, a quarter of what the copy takes. Nearly all that is saved lies in
 * anonymous memory whose pages are present, and the kernel tells that faster: the
 * mapping says that it may be read and is no file (which could have been cut), and a
 * scan of the page tables finds them all (pages can be guarded one by one, or be
 * waited for by a userfaultfd). Together 3 ms (pages.h).
 */
#include "client/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/descriptor.h"
#include "client/pages.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define PAGE 4096ul

_Atomic bool portus_source_keyed;

static int open_high(const char *path)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -1 : portus_descriptor_raise(fd);
}

void portus_source_open(struct portus_source *source)
{
    /* The process's, not the thread's: what is a thread's says nothing once that has ended. */
    source->maps = open_high("/proc/self/maps");
    source->pages = open_high("/proc/self/pagemap");
}

void portus_source_close(struct portus_source *source)
{
    portus_descriptor_close(&source->maps);
    portus_descriptor_close(&source->pages);
}

/* The kernel reads eight bytes there as this thread may, before it sees that the rest is wrong. */
static bool denied_by_key(uintptr_t page)
{
    return syscall(SYS_rt_sigprocmask, -1, page, NULL, 8ul) < 0 && errno == EFAULT;
}

/* Makes all pages present; false: not all are to be had. */
static bool populate(uintptr_t start, uintptr_t end)
{
    uint8_t byte;

    if (madvise((void *)start, end - start, MADV_POPULATE_READ) == 0)
        return true;
    if (errno != EINVAL)
        return false;
    /* Before 5.14, a special mapping, or a key: let the kernel touch each page. */
    for (uintptr_t page = start; page < end; page += PAGE) {
        struct iovec local = {&byte, 1}, remote = {(void *)page, 1};
        if (syscall(SYS_process_vm_readv, getpid(), &local, 1ul, &remote, 1ul, 0ul) != 1 ||
            (portus_source_keyed && denied_by_key(page)))
            return false;
    }
    return true;
}

static uintptr_t first_page(const void *data)
{
    return (uintptr_t)data & ~(PAGE - 1);
}

static uintptr_t after_last_page(const void *data, size_t length)
{
    return ((uintptr_t)data + length + PAGE - 1) & ~(PAGE - 1);
}

bool portus_source_present(const struct portus_source *source, const void *data, size_t length)
{
    return !atomic_load_explicit(&portus_source_keyed, memory_order_relaxed) &&
           portus_pages_present(source, first_page(data), after_last_page(data, length));
}

bool portus_source_readable(const struct portus_source *source, const void *data, size_t length)
{
    return (source != NULL && portus_source_present(source, data, length)) ||
           populate(first_page(data), after_last_page(data, length));
}
