/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_remap.c -- mremap of memory of which a part came from a device
 * run: cuda captures=1
 *
 * Right: it is one mapping still, to grow, shrink and move, once and again, and after other calls.
 */
#include "cuda.h"

#define SIZE (6 * MIB)

static void is(const char *memory, size_t from, size_t to, int value)
{
    for (size_t i = from; i < to; i++)
        check(memory[i] == value);
}

static char *remapped(char *memory, size_t old, size_t size, uint32_t seed)
{
    size_t rest = old < size ? old : size;

    memory = mremap(memory, old, size, MREMAP_MAYMOVE);
    check(memory != MAP_FAILED);
    is(memory, 0, MIB + 100, 7);
    check(stamped(memory + MIB + 100, 2 * MIB, seed));
    is(memory, 3 * MIB + 100, rest, 7);
    if (size > old)
        is(memory, old, size, 0);
    memset(memory + rest, 7, size - rest);
    return memory;
}

int main(void)
{
    begin();
    int fd = create("moved.ckpt");
    char *memory = memset(anonymous(SIZE), 7, SIZE);

    copy(memory + MIB + 100, 2 * MIB, 1);
    memory = remapped(memory, SIZE, 2 * SIZE, 1);
    memory = remapped(memory, 2 * SIZE, 4 * MIB, 1);
    memory = remapped(memory, 4 * MIB, 5 * MIB, 1);
    put(fd, memory, 5 * MIB);
    copy(memory + MIB + 100, 2 * MIB, 2);
    memory = remapped(memory, 5 * MIB, 5 * MIB, 2);
    check(madvise(memory, 5 * MIB, MADV_WIPEONFORK) == 0);
    check(madvise(memory, 5 * MIB, MADV_KEEPONFORK) == 0);
    memory = remapped(memory, 5 * MIB, 8 * MIB, 2);
    copy(memory + MIB + 100, 2 * MIB, 3);
    check(mprotect(memory, 8 * MIB, PROT_READ) == 0);
    check(mprotect(memory, 8 * MIB, PROT_READ | PROT_WRITE) == 0);
    memory = remapped(memory, 8 * MIB, SIZE, 3);
    churn(fd);
    put(fd, memory, SIZE);
    check(close(fd) == 0);
    return 0;
}
