/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * other.c -- a program that the shim does not reach, and that does one thing to a file
 *
 * Built static, for 32 bits and against musl; other.go and other.rs do the same by the system calls of their own.
 * What it prints is what it saw.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void digest(int fd)
{
    static unsigned char piece[65536];
    unsigned long long hash = 14695981039346656037ull, total = 0;
    long n;

    while ((n = read(fd, piece, sizeof(piece))) > 0) {
        total += n;
        for (long i = 0; i < n; i++)
            hash = (hash ^ piece[i]) * 1099511628211ull;
    }
    printf("%llu %016llx\n", total, hash);
}

static int must(int fd)
{
    if (fd < 0) {
        perror("other");
        exit(1);
    }
    return fd;
}

int main(int count, char **word)
{
    const char *verb = word[1], *path = word[2];
    static char piece[65536];
    long n;

    if (strcmp(verb, "digest") == 0) {
        digest(must(open(path, O_RDONLY)));
    } else if (strcmp(verb, "patch") == 0) {
        int fd = must(open(path, O_WRONLY));
        printf("%ld %ld\n", (long)pwrite(fd, "patched", 7, 100), (long)lseek(fd, 0, SEEK_END));
    } else if (strcmp(verb, "append") == 0) {
        int fd = must(open(path, O_WRONLY | O_APPEND));
        printf("%ld %ld\n", (long)write(fd, "appended", 8), (long)lseek(fd, 0, SEEK_END));
    } else if (strcmp(verb, "truncate") == 0) {
        printf("%d\n", truncate(path, 5000001));
    } else if (strcmp(verb, "rename") == 0) {
        printf("%d\n", rename(path, word[3]));
    } else if (strcmp(verb, "link") == 0) {
        printf("%d\n", link(path, word[3]));
    } else if (strcmp(verb, "unlink") == 0) {
        printf("%d\n", unlink(path));
    } else if (strcmp(verb, "inherited") == 0) {
        int fd = atoi(path);
        printf("%ld", (long)lseek(fd, 0, SEEK_CUR));
        printf(" %ld", (long)write(fd, "inherited", 9));
        printf(" %ld\n", (long)pwrite(fd, "too", 3, 1000));
        lseek(fd, 0, SEEK_SET);
        digest(fd);
    } else if (strcmp(verb, "copy") == 0) {
        int from = must(open(path, O_RDONLY)), to = must(open(word[3], O_CREAT | O_TRUNC | O_WRONLY, 0644));
        while ((n = read(from, piece, sizeof(piece))) > 0)
            if (write(to, piece, n) != n)
                exit(1);
        printf("%ld\n", (long)lseek(to, 0, SEEK_CUR));
    }
    return 0;
}
