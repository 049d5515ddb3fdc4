/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors.c -- calls that fail, beside a file being saved
 * run: captures=1
 *
 * Right: the same return value and errno as the kernel's.
 */
#include "helper.h"
#include <sys/mman.h>

#define try(call)                                                                                  \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long long value_ = (long long)(call);                                                      \
        printf("%s: %lld %d\n", #call, value_, errno);                                             \
    } while (0)

int main(void)
{
    char *p = bytes(BIG, 1);
    signal(SIGPIPE, SIG_IGN);
    int fd = create("a.ckpt"), closed = must(dup(fd)), pipe_[2];
    put(fd, p, BIG);
    close(closed);
    int readonly = must(open("a.ckpt", O_RDONLY)), dir = must(open(".", O_RDONLY));
    must(pipe(pipe_));
    close(pipe_[0]);
    volatile int bad = -1;
    const char *volatile none = NULL;
    try(write(closed, p, BIG));
    try(write(bad, p, BIG));
    try(write(readonly, p, BIG));
    try(write(dir, p, 5));
    try(write(pipe_[1], p, BIG));
    try(read(fd, p, 5));
    try(pwrite(pipe_[1], p, 5, 0) == -1);
    try(lseek(pipe_[1], 0, SEEK_SET));
    try(lseek(fd, -1, SEEK_SET));
    try(ftruncate(readonly, 5));
    try(ftruncate(fd, -5));
    try(fsync(pipe_[1]));
    try(close(closed));
    try(dup2(bad, 50));
    try(open("a.ckpt", O_CREAT | O_EXCL | O_WRONLY, 0644));
    try(open("nowhere/a.ckpt", O_CREAT | O_WRONLY, 0644));
    try(open("a.ckpt/b", O_CREAT | O_WRONLY, 0644));
    try(open(".", O_WRONLY));
    try(open(none, O_CREAT | O_WRONLY, 0644));
    try(open("a.ckpt", O_DIRECTORY));
    try(creat("", 0644));
    try(rename("b.ckpt", "a.ckpt"));
    try(rename("a.ckpt", "nowhere/a.ckpt"));
    try(rename("a.ckpt", "."));
    try(unlink("b.ckpt"));
    try(unlink("."));
    try(rmdir("a.ckpt"));
    try(mkdir("a.ckpt", 0755));
    try(link("b.ckpt", "c.ckpt"));
    try(link("a.ckpt", "a.ckpt"));
    try(symlink("a.ckpt", "a.ckpt"));
    try(truncate("nowhere", 5));
    try(mmap(NULL, 5, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
    put(fd, p, BIG);
    return close(fd);
}
