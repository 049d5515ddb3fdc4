/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_many.c -- a program that keeps thousands of copies, and maps more itself
 * run: by=check-cuda captures=2 modes=default slow timeout=200
 */
#include "cuda.h"

enum { COUNT = 10000, SIZE = MIB, STEP = MIB + 8192 };

int main(void)
{
    /* Memory for them that is touched where they are promised only. */
    char *memory = mmap(NULL, (size_t)COUNT * STEP, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CUdeviceptr from;
    int fd;

    check(memory != MAP_FAILED);
    begin();
    alarm(150);
    from = device_memory(SIZE);
    stamp(from, SIZE, 1, NULL);
    fd = create("a.ckpt");
    save("b.ckpt", BIG, 2);
    for (size_t i = 0; i < COUNT; i++) {
        char *to = memory + i * STEP;

        ok(cuMemcpyDtoH_v2(to, from, SIZE));
        put_at(fd, to, 4096, 0);
        /* What is kept is a little of each: this machine may be small. */
        must(madvise(to + 4096, SIZE - 8192, MADV_DONTNEED));
    }
    for (size_t i = 0; i < COUNT; i++)
        check(stamped(memory + i * STEP, 4096, 1) && memory[i * STEP + 4096] == 0 &&
              memory[i * STEP + SIZE - 1] != memory[i * STEP + 4096]);
    for (unsigned i = 0; i < 20000; i++)
        check(mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
