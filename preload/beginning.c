/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * beginning.c -- what a file held before it engaged, once more through the log
 *
 * A checkpoint begins with small writes, which are made plainly. The store can commit a file
 * before it is drained only if all of it has passed the ring. So where a publishing call waits
 * for that (PORTUS_ORDER=relaxed, with a store) these bytes are read back, and logged: the drain
 * writes the same bytes again. They are read through a description of our own, before the
 * lease is taken, which allows no other; if a plain write of any thread has begun since,
 * they are not used, and the file is kept when it is drained. Of a size that was set before
 * (safetensors) nothing is read: all of that is going to be written.
 */
#include "beginning.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file_private.h"
#include "shim.h"

#define MOST (16ul << 20)

static bool wanted(void)
{
    return shim.env.order == PORTUS_ORDER_RELAXED && shim.env.store[0] != '\0' &&
           shim.env.shared == 0;
}

/* How much of it has been written, if the rest is one hole. */
static size_t written(int fd, size_t size)
{
    long hole = syscall(SYS_lseek, fd, 0, SEEK_HOLE);

    return hole >= 0 && (size_t)hole < size && syscall(SYS_lseek, fd, hole, SEEK_DATA) < 0
               ? (size_t)hole
               : size;
}

void beginning_read(struct beginning *beginning, struct file *file, int fd)
{
    char path[32];
    struct statx status;
    size_t length, done = 0;
    char *data = MAP_FAILED;
    int own;

    beginning->data = NULL;
    beginning->plain = atomic_load(&file->plain);
    if (!wanted() || (beginning->plain & FILE_PLAIN_NOW) != 0 ||
        syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, &status) != 0 || status.stx_size == 0)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    own = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (own < 0)
        return;
    length = written(own, status.stx_size);
    if (length > 0 && length <= MOST)
        data = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (data != MAP_FAILED && done < length) {
        long got = syscall(SYS_pread64, own, data + done, length - done, done);
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    syscall(SYS_close, own);
    if (data == MAP_FAILED)
        return;
    if (done == length) {
        beginning->data = data;
        beginning->length = length;
    } else {
        munmap(data, length);
    }
}

void beginning_log(struct beginning *beginning, struct file *file, bool engaged)
{
    uint64_t waited = 0;

    if (beginning->data == NULL)
        return;
    /* What is logged of it in part is the same as what stands there. */
    if (engaged && atomic_load(&file->plain) == beginning->plain)
        portus_writer_append(&shim.writer, file->number, beginning->data, beginning->length, 0,
                             &waited);
    munmap(beginning->data, beginning->length);
    beginning->data = NULL;
}
