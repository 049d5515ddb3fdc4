/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_given.c -- memory that was saved is kept, and shown from the ring, when memory becomes short
 * run: captures=3 modes=default,copied
 *
 * Right: it is as it was, whether it is asked back (see cuda_given_back.py, which says when on the
 * standard input) or not.
 */
#include <poll.h>

#include "cuda.h"

enum { KEPT = MIB };

int main(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    CUdeviceptr small;
    char *kept = anonymous(KEPT), to[8];
    int fd;

    begin();
    small = device_memory(8);
    save("large.ckpt", 64 * MIB, 2); /* a large ring */
    fd = create("a.ckpt");
    copy(kept, KEPT, 3);
    put(fd, kept, KEPT);
    check(close(fd) == 0);
    if (getenv("GIVEN_BACK")) {
        alarm(60);
        printf("kept %d\n", shown(kept));
        fflush(stdout);
        while (poll(&input, 1, 10) == 0)
            ok(cuMemcpyDtoH_v2(to, small, 8));
    }
    check(stamped(kept, KEPT, 3));
    save("large.ckpt", 64 * MIB, 4);
    show("a.ckpt");
    show("large.ckpt");
    return 0;
}
