/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * efault.c -- sources that are partly or wholly not there, and one that is its own file
 * run: captures=1
 *
 * Right: EFAULT, or the bytes up to the bad page, as the kernel counts them; never a
 * signal; the offset moves by what was taken.
 */
#include "helper.h"
#include <sys/mman.h>

static int fd;
static void try(const char *title, const void *from, size_t n)
{
    errno = 0;
    ssize_t value = write(fd, from, n);
    printf("%s: %zd %d, at %lld\n", title, value, errno, (long long)lseek(fd, 0, SEEK_CUR));
}

int main(void)
{
    char *p = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(p != MAP_FAILED);
    fill(p, 8 * MIB, 1);
    check(mprotect(p + 4 * MIB, 4096, PROT_NONE) == 0);
    check(mprotect(p + 7 * MIB, MIB, PROT_NONE) == 0); /* unmapped, somebody may move in */
    fd = create("a.ckpt");
    try("first", p, 2 * MIB + 3);
    try("tail", p + 100, 5 * MIB);
    try("begin", p + 4 * MIB + 5, 2 * MIB);
    try("end", p + 5 * MIB + 7, 3 * MIB);
    try("small", p + 4 * MIB - 10, 20);
    try("small", p + 4 * MIB, 20);
    try("null", NULL, 2 * MIB);
    try("kernel", (void *)0xffff800000000000ull, 2 * MIB);
    try("overflow", p, (size_t)-1);
    struct iovec v[3] = {{p + 9, MIB}, {p + 4 * MIB, 100}, {p, MIB}};
    errno = 0;
    ssize_t value = writev(fd, v, 3);
    printf("vector: %zd %d\n", value, errno);
    v[1].iov_base = p + 4 * MIB - 50;
    value = writev(fd, v, 3);
    printf("vector: %zd\n", value);
    errno = 0;
    void *volatile none = NULL;
    value = writev(fd, none, 2);
    printf("vector: %zd %d\n", value, errno);
    try("good", p + 1, 2 * MIB);

    /* a mapping of a file that has become shorter: SIGBUS for who touches it */
    int source = must(open("source", O_CREAT | O_RDWR, 0600));
    must(ftruncate(source, 4 * MIB));
    char *m = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, source, 0);
    check(m != MAP_FAILED);
    must(ftruncate(source, 2 * MIB + 10));
    try("short mapping", m + 5, 4 * MIB - 5);
    try("short mapping", m + 3 * MIB, MIB);
    /* The kernel keeps room beyond the end after a write that failed half way. */
    must(ftruncate(fd, lseek(fd, 0, SEEK_END)));
    return close(fd);
}
