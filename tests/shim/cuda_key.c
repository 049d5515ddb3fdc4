/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_key.c -- promised memory is protected by pkey_mprotect, and other memory as well (pkeys(7))
 * run: captures=1 referred=20 modes=default,all,copied
 *
 * Right: it keeps its bytes, whatever becomes of the ring, and what a key denies cannot be written to a
 * file: EFAULT, no signal. Where the processor has no keys it is protected without.
 */
#include <sys/syscall.h>

#include "cuda.h"

enum { SIZE = 3 * MIB };

static int fd;

/* By a function of libc, or by libc's syscall. */
static void protect(char *to, int protection, int key, int by_number)
{
    must(by_number ? (int)syscall(SYS_pkey_mprotect, to, (size_t)SIZE, protection, key)
                   : pkey_mprotect(to, SIZE, protection, key));
}

static void denied(char *memory, int key, int by_number)
{
    protect(memory, PROT_READ | PROT_WRITE, key, by_number);
    if (key < 0)
        return;
    must(pkey_set(key, PKEY_DISABLE_ACCESS));
    check(write(fd, memory, SIZE) == -1 && errno == EFAULT);
    must(pkey_set(key, 0));
}

int main(void)
{
    char *promised[4], *copied = anonymous(SIZE);
    int key = pkey_alloc(0, 0);

    begin();
    fd = create("a.ckpt");
    put(fd, "PK\3\4", 4);
    for (uint32_t i = 0; i < 4; i++) {
        promised[i] = anonymous(SIZE);
        copy(promised[i], SIZE, i);
        put(fd, promised[i], SIZE);
    }
    protect(promised[0], PROT_NONE, -1, 0);
    protect(promised[1], PROT_NONE, -1, 1);
    denied(promised[2], key, 0);
    denied(promised[3], key, 1);
    memset(copied, 7, SIZE);
    denied(copied, key, 0);
    churn(fd);
    protect(promised[0], PROT_READ | PROT_WRITE, -1, 0);
    protect(promised[1], PROT_READ | PROT_WRITE, -1, 1);
    for (uint32_t i = 0; i < 4; i++) {
        check(stamped(promised[i], SIZE, i));
        put(fd, promised[i], SIZE);
    }
    put(fd, copied, SIZE);
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
