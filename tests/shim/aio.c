/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aio.c -- POSIX aio reads and changes what was written before
 * run: captures=1
 *
 * Right: the later bytes stand, by whatever way they went.
 */
#include "helper.h"
#include <aio.h>

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

    fd = must(open("b.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(fd, p, BIG);
    char *q = calloc(1, 5000);
    struct aiocb *const jobs[] = {
        &(struct aiocb){.aio_fildes = fd, .aio_buf = p + 11, .aio_nbytes = 3000, .aio_offset = 50,
                        .aio_lio_opcode = LIO_WRITE}};
    check(lio_listio(LIO_WAIT, jobs, 1, NULL) == 0);
    job = (struct aiocb){.aio_fildes = fd, .aio_buf = q, .aio_nbytes = 5000, .aio_offset = 20};
    check(aio_read(&job) == 0 && aio_suspend(list, 1, NULL) == 0 && aio_return(&job) == 5000);
    printf("%016llx\n", (unsigned long long)digest(q, 5000, 0));
    check(aio_fsync(O_SYNC, &job) == 0 && aio_suspend(list, 1, NULL) == 0);
    put(fd, p, BIG);
    return close(fd);
}
