/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aio.c -- POSIX aio and io_uring change what was written before
 * run: captures=1
 *
 * Right: the later bytes stand, by whatever way they went.
 */
#include "helper.h"
#include <aio.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static void uring(int fd, const char *from, unsigned n, uint64_t at)
{
    struct io_uring_params q = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 4, &q);
    if (ring < 0) {
        put_at(fd, from, n, (off_t)at); /* not allowed here */
        return;
    }
    char *s = mmap(NULL, q.sq_off.array + 4 * 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                   ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *e = mmap(NULL, 4 * sizeof *e, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    check(s != MAP_FAILED && (void *)e != MAP_FAILED);
    *e = (struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = fd, .addr = (uint64_t)from,
                               .len = n, .off = at};
    ((unsigned *)(s + q.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(s + q.sq_off.tail), 1, __ATOMIC_RELEASE);
    check(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    close(ring);
}

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt");
    put(fd, p, BIG);
    struct aiocb job = {.aio_fildes = fd, .aio_buf = p + 9, .aio_nbytes = 5000, .aio_offset = 10};
    const struct aiocb *const list[] = {&job};
    check(aio_write(&job) == 0 && aio_suspend(list, 1, NULL) == 0);
    printf("%zd\n", aio_return(&job));
    put(fd, p + 1, BIG - 1);
    close(fd);

    fd = create("b.ckpt");
    put(fd, p, BIG);
    uring(fd, p + 11, 3000, 50);
    put(fd, p, BIG);
    return close(fd);
}
