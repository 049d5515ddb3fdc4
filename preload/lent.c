/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lent.c -- descriptors whose reads come from the pool (PORTUS_RESTORE=read)
 *
 * The descriptor stays that of the real file, with the kernel's own offset, which is moved
 * by lseek as a read would: so every call that is not seen here, or not known, is right.
 *
 * Each read asks before and after whether the file still is what the version was made
 * of, by inode, size, mtime and ctime. The kernel moves ctime before it changes a byte, also
 * for a mapping, and nobody can set it back; when the version was made a lease showed that
 * nobody had the file open for writing, and portusd waited for the clock's next tick. So if
 * ctime is the same after the bytes were copied, they were the file's at that moment. No
 * lease is needed while it is read, so nobody who wants to write waits for us.
 *
 * What is copied is believed if it has its extent's CRC; and only what is in memory is taken
 * from the pool (RWF_NOWAIT). Otherwise the caller reads the file.
 */
#include "lent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/descriptor.h"
#include "common/copy.h"
#include "common/futex.h"
#include "common/log.h"
#include "portus/layout.h"
#include "shim.h"

#define LENT 16              /* at a time */
#define EXTENTS (1ull << 20) /* most */
#define PROBES 16
#define READ_MOST 0x7ffff000 /* as read(2) */

static struct place {
    struct portus_lock lock; /* of all below, and of the descriptor's offset */
    _Atomic int fd;          /* with 1 added; 0: none */
    struct portus_pool_lent what;
    struct portus_pool_extent *extents;
    size_t mapped; /* bytes at extents, bytes included */
    char *bytes;   /* of the extent that was used last: which, with 1 added */
    uint64_t which;
} places[LENT];

static int pool = -1;
static struct portus_lock pool_lock;

/* Of this thread: a fault's handler may read the same file. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

bool lent_wanted(int fd, uint64_t size)
{
    unsigned cold = 0;
    unsigned char in;
    char *map;

    if (size < PORTUS_POOL_LENDS)
        return false;
    /* Asking by a read that does not wait would begin to read. */
    map = (char *)syscall(SYS_mmap, NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0L);
    if (map == MAP_FAILED)
        return false;
    for (unsigned i = 0; i < PROBES; i++)
        cold += syscall(SYS_mincore, map + (size / PROBES * i & ~4095ull), 1L, &in) == 0 &&
                (in & 1) == 0;
    syscall(SYS_munmap, map, size);
    return cold >= PROBES / 2;
}

static int64_t nanoseconds(const struct statx_timestamp *time)
{
    return time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Whether fd is open for reading only, on that very file, as it was. */
static bool unchanged(int fd, const struct portus_pool_lent *what)
{
    struct statx status;
    long flags = syscall(SYS_fcntl, fd, F_GETFL, 0);

    return flags >= 0 && !(flags & (O_PATH | O_DIRECT)) && (flags & O_ACCMODE) == O_RDONLY &&
           syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) == 0 &&
           makedev(status.stx_dev_major, status.stx_dev_minor) == what->device &&
           status.stx_ino == what->inode && status.stx_size == what->size &&
           nanoseconds(&status.stx_mtime) == what->mtime &&
           nanoseconds(&status.stx_ctime) == what->ctime;
}

static bool all(long (*more)(void *, char *, size_t), void *argument, void *to, size_t length)
{
    for (size_t done = 0; done < length;) {
        long got = more(argument, (char *)to + done, length - done);

        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* Whether the extents cover the file without a gap. */
static bool covers(const struct portus_pool_extent *extents, uint64_t count, uint64_t size)
{
    uint64_t end = 0;

    for (uint64_t i = 0; i < count; i++) {
        if (extents[i].offset != end || extents[i].length == 0 ||
            extents[i].length > PORTUS_POOL_EXTENT || extents[i].place > INT64_MAX / 2)
            return false;
        end += extents[i].length;
    }
    return end == size;
}

static bool open_pool(const char *path)
{
    struct guard guard = shim_guard();

    portus_lock(&pool_lock);
    if (pool < 0) {
        pool = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
        if (pool >= 0)
            pool = portus_descriptor_raise(pool);
    }
    portus_unlock(&pool_lock);
    shim_unguard(&guard);
    return pool >= 0;
}

/* With the place's lock. */
static void clear(struct place *place)
{
    int fd = place->fd - 1;

    if (lent(fd))
        atomic_store(&fdtab[fd], 0);
    if (place->extents != NULL)
        munmap(place->extents, place->mapped);
    place->extents = NULL;
    place->fd = 0;
}

bool lent_begin(int fd, const char *path, long (*more)(void *, char *, size_t), void *argument)
{
    struct portus_pool_lent what;
    struct portus_pool_extent *extents;
    struct guard guard;
    size_t size;
    bool begun = false, good;

    if ((unsigned)fd >= FDTAB_SIZE || atomic_load(&fdtab[fd]) != 0 ||
        !all(more, argument, &what, sizeof(what)) || what.magic != PORTUS_POOL_LENT_MAGIC ||
        what.extents == 0 || what.extents > EXTENTS || !unchanged(fd, &what) || !open_pool(path))
        return false;
    size = what.extents * sizeof(*extents);
    extents = mmap(NULL, size + PORTUS_POOL_EXTENT, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (extents == MAP_FAILED)
        return false;
    good = all(more, argument, extents, size) && covers(extents, what.extents, what.size);
    guard = shim_guard();
    for (unsigned i = 0; i < LENT && good && !begun; i++) {
        struct place *place = &places[i];

        portus_lock(&place->lock);
        if (place->fd == fd + 1) /* it was closed unseen */
            clear(place);
        if (place->fd == 0) {
            place->what = what;
            place->extents = extents;
            place->mapped = size + PORTUS_POOL_EXTENT;
            place->bytes = (char *)extents + size;
            place->which = 0;
            place->fd = fd + 1;
            atomic_store(&fdtab[fd], FDTAB_LENT);
            begun = true;
        }
        portus_unlock(&place->lock);
    }
    shim_unguard(&guard);
    if (!begun)
        munmap(extents, size + PORTUS_POOL_EXTENT);
    return begun;
}

/* An extent, whole. 0 or a negative errno; -EUCLEAN. */
static int fetch(const struct portus_pool_extent *extent, char *to)
{
    for (uint32_t done = 0; done < extent->length;) {
        struct iovec vector = {to + done, extent->length - done};
        long got =
            syscall(SYS_preadv2, pool, &vector, 1, (long)(extent->place + done), 0L, RWF_NOWAIT);

        if (got <= 0)
            return got < 0 ? -errno : -EUCLEAN;
        done += (uint32_t)got;
    }
    return portus_crc32(0, to, extent->length) == extent->crc ? 0 : -EUCLEAN;
}

static uint64_t extent_at(const struct place *place, uint64_t offset)
{
    uint64_t low = 0, high = place->what.extents - 1;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (place->extents[middle].offset + place->extents[middle].length <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* To the program's memory, if it is any: a wrong address is EFAULT, not a signal. */
static int put(char *to, char *from, size_t length)
{
    struct iovec local = {from, length}, remote = {to, length};

    return syscall(SYS_process_vm_writev, (long)shim.pid, &local, 1L, &remote, 1L, 0L) ==
                   (long)length
               ? 0
               : -EFAULT;
}

static int copy(struct place *place, char *to, uint64_t offset, uint64_t length)
{
    for (uint64_t i = extent_at(place, offset); length > 0; i++) {
        const struct portus_pool_extent *extent = &place->extents[i];
        uint64_t skip = offset - extent->offset, n = extent->length - skip;
        int error = 0;

        n = n < length ? n : length;
        if (n == extent->length) {
            error = fetch(extent, to);
        } else {
            if (place->which != i + 1) {
                place->which = 0;
                error = fetch(extent, place->bytes);
            }
            if (error == 0) {
                place->which = i + 1;
                error = put(to, place->bytes + skip, n);
            }
        }
        if (error != 0)
            return error;
        to += n;
        offset += n;
        length -= n;
    }
    return 0;
}

/* With the place's lock. */
static bool read_place(struct place *place, int fd, void *data, size_t length, off_t offset,
                       ssize_t *result)
{
    bool moves = offset == LENT_CURRENT;
    uint64_t left;
    int error;

    if (!unchanged(fd, &place->what)) {
        clear(place);
        return false;
    }
    if (moves)
        offset = syscall(SYS_lseek, fd, 0, SEEK_CUR);
    if (offset < 0 || (uint64_t)offset >= place->what.size || length == 0)
        return false;
    left = place->what.size - (uint64_t)offset;
    length = length < READ_MOST ? length : READ_MOST;
    length = length < left ? length : left;
    error = copy(place, data, (uint64_t)offset, length);
    if (error == -EUCLEAN) {
        log_warn(
            "the pool is damaged where a checkpoint is read from it: it is read from its file");
    }
    if (error != 0) {
        clear(place); /* also where it is not in memory: what is on a disk is no faster */
        return false;
    }
    if (!unchanged(fd, &place->what)) {
        clear(place);
        return false;
    }
    if (moves && syscall(SYS_lseek, fd, offset + (off_t)length, SEEK_SET) < 0)
        return false;
    *result = (ssize_t)length;
    return true;
}

bool lent_read(int fd, void *data, size_t length, off_t offset, ssize_t *result)
{
    struct guard guard;
    bool done = false;

    if (inside || !shim_own() || (offset < 0 && offset != LENT_CURRENT))
        return false;
    guard = shim_guard();
    inside = true;
    for (unsigned i = 0; i < LENT && !done; i++) {
        struct place *place = &places[i];

        if (place->fd != fd + 1)
            continue;
        portus_lock(&place->lock);
        if (place->fd == fd + 1)
            done = read_place(place, fd, data, length, offset, result);
        portus_unlock(&place->lock);
        break;
    }
    inside = false;
    shim_unguard(&guard);
    return done;
}

void lent_end(int fd)
{
    struct guard guard;

    if (inside || !shim_own())
        return;
    guard = shim_guard();
    for (unsigned i = 0; i < LENT; i++) {
        struct place *place = &places[i];

        if (place->fd == 0 || (fd >= 0 && place->fd != fd + 1))
            continue;
        portus_lock(&place->lock);
        if (place->fd != 0 && (fd < 0 || place->fd == fd + 1))
            clear(place);
        portus_unlock(&place->lock);
    }
    shim_unguard(&guard);
}

void lent_end_all(void)
{
    struct guard guard;

    if (pool < 0 || inside || !shim_own())
        return;
    lent_end(-1);
    guard = shim_guard();
    portus_lock(&pool_lock);
    portus_descriptor_close(&pool);
    portus_unlock(&pool_lock);
    shim_unguard(&guard);
}

void lent_forget(void)
{
    memset(&pool_lock, 0, sizeof(pool_lock));
    for (unsigned i = 0; i < LENT; i++) {
        memset(&places[i].lock, 0, sizeof(places[i].lock));
        if (places[i].fd != 0)
            clear(&places[i]);
    }
    if (pool >= 0)
        portus_descriptor_close(&pool);
}
