/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libaio.c -- libaio changes and reads a file that was written before
 * run: captures=1
 *
 * Right: the later bytes stand, by whatever way they went; an error is returned.
 */
#include "helper.h"
#include <libaio.h>

int main(void)
{
    char *p = bytes(BIG, 1), *q = calloc(1, 5000);
    int fd = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    struct iocb job, *jobs[] = {&job};
    struct io_event event;
    io_context_t context = NULL;

    check(io_setup(4, &context) == 0);
    put(fd, p, BIG);
    io_prep_pwrite(&job, fd, p + 9, 5000, 10);
    check(io_submit(context, 1, jobs) == 1 && io_getevents(context, 1, 1, &event, NULL) == 1);
    printf("%ld\n", (long)event.res);
    put(fd, p + 1, BIG - 1);
    io_prep_pread(&job, fd, q, 5000, 20);
    check(io_submit(context, 1, jobs) == 1 && io_getevents(context, 1, 1, &event, NULL) == 1);
    printf("%ld %016llx\n", (long)event.res, (unsigned long long)digest(q, 5000, 0));
    job.aio_fildes = 300;
    errno = 5;
    printf("%d %d\n", io_submit(context, 1, jobs), errno);
    io_destroy(context);
    return close(fd);
}
