/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * large.c -- one write of 3 GiB, then the rest
 * run: slow modes=default mem=8 disk=12 timeout=180 captures=1
 *
 * Right: the kernel takes 0x7ffff000 bytes of it, whoever writes them, and says so.
 */
#include "helper.h"
#include <sys/mman.h>

#define SIZE ((size_t)3 << 30)
#define WINDOW ((size_t)64 << 20)

int main(void)
{
    int memory = must(memfd_create("source", 0));
    must(ftruncate(memory, WINDOW));
    char *p = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(p != MAP_FAILED);
    for (size_t at = 0; at < SIZE; at += WINDOW)
        check(mmap(p + at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) ==
              p + at);
    fill(p, WINDOW, 1);
    int fd = create("a.ckpt");
    ssize_t n = write(fd, p, SIZE);
    printf("%zd\n", n);
    check(n > 0);
    for (size_t done = (size_t)n; done < SIZE; done += (size_t)n)
        printf("%zd\n", n = must(write(fd, p + done, SIZE - done)));
    return close(fd);
}
