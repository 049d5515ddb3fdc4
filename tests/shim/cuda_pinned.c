/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_pinned.c -- memory that an io_uring has registered, before it is promised and afterwards
 * run: captures=2 referred=5 modes=default,ring,copied
 *
 * The kernel reads and writes the pages that were there then. Right: these are the program's.
 */
#include <liburing.h>

#include "cuda.h"

enum { SIZE = 2 * MIB };

static struct io_uring ring;
static int fd, other;

static void submit(struct io_uring_sqe *entry)
{
    struct io_uring_cqe *done;

    check(entry != NULL && io_uring_submit(&ring) == 1 && io_uring_wait_cqe(&ring, &done) == 0);
    check(done->res == SIZE);
    io_uring_cqe_seen(&ring, done);
}

/* By the kernel, from the buffer's registered pages or from where it is now. */
static void out(char *from, int registered)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);

    if (registered)
        io_uring_prep_write_fixed(entry, other, from, SIZE, 0, 0);
    else
        io_uring_prep_write(entry, other, from, SIZE, 0);
    submit(entry);
}

static void in(char *to)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);

    io_uring_prep_read_fixed(entry, other, to, SIZE, 0, 0);
    submit(entry);
}

static void registered(char *buffer)
{
    struct iovec vector = {buffer, SIZE};

    check(io_uring_register_buffers(&ring, &vector, 1) == 0);
}

/* What the other file has, by other memory. */
static void holds(uint32_t seed)
{
    static char got[SIZE];

    check(pread(other, got, SIZE, 0) == SIZE && stamped(got, SIZE, seed));
}

/* The next save: an io_uring that is asked for something ends that of all files that are open. */
static void next(char *buffer, uint32_t seed)
{
    static char name[] = "a.ckpt";

    if (fd != 0)
        check(close(fd) == 0);
    alarm(5);
    fd = create(name);
    name[0]++;
    copy(buffer, SIZE, seed);
    check(stamped(buffer, SIZE, seed));
}

int main(void)
{
    char *buffer = anonymous(SIZE);

    begin();
    if (io_uring_queue_init(4, &ring, 0) != 0)
        return 0; /* not allowed here */
    other = must(open("other", O_RDWR | O_CREAT | O_TRUNC, 0644));
    for (uint32_t i = 0; i < 40; i += 10) {
        /* Registered first. */
        munmap(buffer, SIZE);
        buffer = anonymous(SIZE);
        registered(buffer);
        next(buffer, i);
        check(!shown(buffer) && !shown(buffer + MIB));
        put(fd, buffer, SIZE);
        out(buffer, 1);
        holds(i);
        check(io_uring_unregister_buffers(&ring) == 0);
        /* Promised first: given as it is; registered, and written from; and read to. */
        next(buffer, i + 1);
        put(fd, buffer, SIZE);
        out(buffer, 0);
        holds(i + 1);
        next(buffer, i + 2);
        put(fd, buffer, SIZE);
        registered(buffer);
        out(buffer, 1);
        holds(i + 2);
        check(io_uring_unregister_buffers(&ring) == 0);
        next(buffer, i + 3);
        put(fd, buffer, SIZE);
        registered(buffer);
        in(buffer);
        check(stamped(buffer, SIZE, i + 2));
        churn(fd);
        out(buffer, 1);
        holds(i + 2);
        check(io_uring_unregister_buffers(&ring) == 0);
    }
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
