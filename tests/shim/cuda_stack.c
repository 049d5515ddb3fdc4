/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_stack.c -- what a signal handler does with promised memory, on a stack as small as they are
 * run: captures=2 referred=20 modes=default,ring,copied
 */
#include "cuda.h"

enum { SIZE = 2 * MIB, LARGE = 1 << 16 };

/* Beside what the kernel puts there. Of SIGSTKSZ that leaves less; the linker's first look-up takes half of it. */
enum { ROOM = 6 * 1024 };

static char *to;
static int fd, what = -1;

static void handler(int number __attribute__((unused)))
{
    switch (what) {
    case 0:
        check(madvise(to + MIB, 8192, MADV_DONTNEED) == 0);
        break;
    case 1:
        check(mprotect(to + MIB, 8192, PROT_READ) == 0);
        break;
    case 2:
        check(mremap(to + MIB, 8192, 4096, 0) != MAP_FAILED);
        break;
    case 3:
        put(fd, to, SIZE);
        break;
    case 4:
        put_at(fd, to + 8192, MIB, 0);
        break;
    case 5:
        check(madvise(to, SIZE, MADV_DONTFORK) == 0 && madvise(to, SIZE, MADV_WIPEONFORK) == 0);
        break;
    }
}

/* A stack below which nothing is. */
static void on_stack(char *memory, size_t size)
{
    stack_t stack = {.ss_sp = memory + 4096, .ss_size = size};

    must(mprotect(memory, 4096, PROT_NONE));
    must(sigaltstack(&stack, NULL));
}

int main(void)
{
    char *memory = anonymous(LARGE + 4096);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    size_t unused = 4096;

    must(sigaction(SIGUSR1, &action, NULL));
    on_stack(memory, LARGE);
    memset(memory + 4096, 1, LARGE);
    must(raise(SIGUSR1));
    while (memory[unused] == 1)
        unused++;
    on_stack(memory, LARGE + 4096 - unused + ROOM);
    begin();
    fd = create("a.ckpt");
    for (what = 0; what < 6; what++) {
        to = anonymous(SIZE);
        copy(to, SIZE, (uint32_t)what);
        must(raise(SIGUSR1));
        put(fd, to, MIB);
        munmap(to, SIZE);
    }
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
