/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uring.c -- liburing changes a file that was written before, in each way it can submit
 * run: captures=7
 *
 * Right: the later bytes stand, by whatever way they went.
 */
#include "helper.h"
#include <liburing.h>

static struct io_uring ring;

static int submit(int way, struct io_uring_cqe **event)
{
    struct __kernel_timespec second = {1, 0};

    switch (way) {
    case 0:
        return io_uring_submit(&ring);
    case 1:
        return io_uring_submit_and_wait(&ring, 1);
    case 2:
        return io_uring_submit_and_get_events(&ring);
    case 3:
        return io_uring_submit_and_wait_timeout(&ring, event, 1, &second, NULL);
    case 4:
        io_uring_submit(&ring);
        return 1 + io_uring_wait_cqe_timeout(&ring, event, &second);
    case 5:
        io_uring_submit(&ring);
        return 1 + io_uring_wait_cqes(&ring, event, 1, &second, NULL);
    case 6:
        io_uring_submit(&ring);
        return 1 + io_uring_enter((unsigned)ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL);
    default:
        io_uring_submit(&ring);
        return 1 + io_uring_enter2((unsigned)ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 8);
    }
}

int main(void)
{
    char *p = bytes(BIG, 1);

    if (io_uring_queue_init(4, &ring, 0) != 0) {
        printf("no io_uring here\n");
        for (int i = 0; i < 7; i++)
            save((char[]){'a', (char)('0' + i), 0}, BIG, 1);
        return 0;
    }
    for (int way = 0; way < 8; way++) {
        char name[16];
        struct io_uring_cqe *event = NULL;
        snprintf(name, sizeof name, "%d.ckpt", way);
        int fd = create(name);
        put(fd, p, BIG);
        put(fd, p + 1, BIG - 1);
        struct io_uring_sqe *job = io_uring_get_sqe(&ring);
        io_uring_prep_write(job, fd, p + 9, 5000, 10);
        printf("%d: %d", way, submit(way, &event));
        check(io_uring_wait_cqe(&ring, &event) == 0);
        printf(" %d\n", event->res);
        io_uring_cqe_seen(&ring, event);
        put(fd, p, 100);
        close(fd);
    }
    io_uring_queue_exit(&ring);
    return 0;
}
