/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * own_calls.c -- a program with functions of libc's names of its own, which make system calls by syscall()
 * run: captures=2
 *
 * As allocators have, of mmap and mremap, that are linked to the program or loaded first.
 * Right: what it calls is its own, what syscall() is asked for is done, and seen.
 */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "helper.h"

static unsigned calls;

ssize_t write(int fd, const void *from, size_t n)
{
    calls++;
    return syscall(SYS_write, fd, from, n);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    calls++;
    return syscall(SYS_pwrite64, fd, from, n, at);
}

int close(int fd)
{
    calls++;
    return (int)syscall(SYS_close, fd);
}

int fsync(int fd)
{
    calls++;
    return (int)syscall(SYS_fsync, fd);
}

int renameat(int from, const char *old, int to, const char *new)
{
    calls++;
    return (int)syscall(SYS_renameat2, from, old, to, new, 0);
}

int unlinkat(int at, const char *name, int flags)
{
    calls++;
    return (int)syscall(SYS_unlinkat, at, name, flags);
}

int mprotect(void *start, size_t length, int protection)
{
    calls++;
    return (int)syscall(SYS_mprotect, start, length, protection);
}

int madvise(void *start, size_t length, int advice)
{
    calls++;
    return (int)syscall(SYS_madvise, start, length, advice);
}

void *mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
    calls++;
    return (void *)syscall(SYS_mremap, old, old_length, length, flags, NULL);
}

int main(void)
{
    char *data = bytes(BIG, 3), *memory;
    int fd;

    alarm(20);
    fd = create("a.ckpt.tmp");
    put(fd, data, BIG);
    put_at(fd, data, BIG, BIG);
    check(fsync(fd) == 0 && close(fd) == 0);
    check(renameat(AT_FDCWD, "a.ckpt.tmp", AT_FDCWD, "a.ckpt") == 0);
    save("b.ckpt", BIG, 4);
    save("c.ckpt", BIG, 5);
    check(unlinkat(AT_FDCWD, "c.ckpt", 0) == 0);
    memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED);
    memory[0] = 'x';
    memory = mremap(memory, MIB, 2 * MIB, MREMAP_MAYMOVE);
    check(memory != MAP_FAILED && memory[0] == 'x');
    check(mprotect(memory, MIB, PROT_READ) == 0);
    check(madvise(memory, MIB, MADV_DONTNEED) == 0 && memory[0] == 0);
    printf("calls: %u\n", calls);
    show("a.ckpt");
    show("b.ckpt");
    return 0;
}
