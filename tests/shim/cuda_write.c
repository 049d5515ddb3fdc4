/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_write.c -- device memory that is copied to the host, and written, while a file is open
 * run: captures=2 referred=80 modes=default,copied,off
 *
 * Right: the file has what the device had at the copy's place in its stream, also where the
 * device's memory, or the program's, has changed since.
 */
#include "cuda.h"

int main(void)
{
    enum { SIZE = 4 * MIB };
    CUdeviceptr from;
    char *to;
    int fd;

    begin();
    from = device_memory(SIZE + MIB);
    fd = create("a.ckpt");
    for (unsigned i = 0; i < 8; i++) {
        to = host(SIZE + i * 4);
        stamp(from, SIZE + i * 4, i, NULL);
        ok(cuMemcpyDtoH_v2(to, from, SIZE + i * 4));
        stamp(from, SIZE, 1000, NULL);
        check(stamped(to, SIZE + i * 4, i));
        put(fd, to, SIZE + i * 4);
        free(to);
    }
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
