/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * source.c -- whether the memory that a program writes from can be read
 *
 * MADV_POPULATE_READ answers for any memory, but visits each page: 45 ms for a GiB
 * of small pages, a quarter of what the copy takes. Nearly all that is saved lies in
 * anonymous memory whose pages are present, and the kernel tells that faster: the
 * mapping says that it may be read and is no file (which could have been cut), and a
 * scan of the page tables finds them all (pages can be guarded one by one, or be
 * waited for by a userfaultfd). Together 3 ms.
 *
 * Formats: proc_pid_maps(5) PROCMAP_QUERY, Linux 6.11; the kernel's admin-guide
 * mm/pagemap PAGEMAP_SCAN, Linux 6.7. Spelled out, as headers may be older.
 */
#include "client/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/descriptor.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define PAGE 4096ul

struct mapping_query {
    uint64_t size, query_flags, query_addr;
    uint64_t start, end, flags, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};
#define MAPPING_QUERY _IOWR('f', 17, struct mapping_query)
#define MAPPING_READABLE 1u

struct page_region {
    uint64_t start, end, categories;
};
struct page_scan {
    uint64_t size, flags, start, end, walk_end, regions, regions_count, pages_most;
    uint64_t inverted, all_of, any_of, returned;
};
#define PAGE_SCAN _IOWR('f', 16, struct page_scan)
#define PAGE_PRESENT (1u << 3)

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

static bool anonymous(int maps, uintptr_t at, uintptr_t end)
{
    struct mapping_query query;

    for (; at < end; at = query.end) {
        query = (struct mapping_query){.size = sizeof(query), .query_addr = at};
        if (syscall(SYS_ioctl, maps, MAPPING_QUERY, &query) < 0 || query.inode != 0 ||
            !(query.flags & MAPPING_READABLE))
            return false;
    }
    return true;
}

/* Mappings of devices are passed over by the scan: so all must be seen, not none missed. */
static bool present(int pages, uintptr_t at, uintptr_t end)
{
    struct page_region seen = {0};
    struct page_scan scan = {.size = sizeof(scan),
                             .start = at,
                             .end = end,
                             .regions = (uintptr_t)&seen,
                             .regions_count = 1,
                             .all_of = PAGE_PRESENT,
                             .returned = PAGE_PRESENT};

    return syscall(SYS_ioctl, pages, PAGE_SCAN, &scan) == 1 && seen.start == at && seen.end == end;
}

/* Makes all pages present; false: not all are to be had. */
static bool populate(uintptr_t start, uintptr_t end)
{
    uint8_t byte;

    if (madvise((void *)start, end - start, MADV_POPULATE_READ) == 0)
        return true;
    if (errno != EINVAL)
        return false;
    /* Before 5.14, or a special mapping: let the kernel touch each page. */
    for (uintptr_t page = start; page < end; page += PAGE) {
        struct iovec local = {&byte, 1}, remote = {(void *)page, 1};
        if (syscall(SYS_process_vm_readv, getpid(), &local, 1ul, &remote, 1ul, 0ul) != 1)
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
    uintptr_t start = first_page(data), end = after_last_page(data, length);

    return source->maps >= 0 && source->pages >= 0 && start < end &&
           anonymous(source->maps, start, end) && present(source->pages, start, end);
}

bool portus_source_readable(const struct portus_source *source, const void *data, size_t length)
{
    return (source != NULL && portus_source_present(source, data, length)) ||
           populate(first_page(data), after_last_page(data, length));
}
