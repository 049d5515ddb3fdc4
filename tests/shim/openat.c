/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openat.c -- every way to open a file, relative to a directory, after chdir, odd names
 * run: captures=8
 *
 * Right: each file in its place and whole; relative names mean what they meant.
 */
#include "helper.h"

static const char *p;
static void done(int fd)
{
    put(must(fd), p, BIG);
    put(fd, p, 5);
    close(fd);
}

int main(void)
{
    char name[256];
    p = bytes(BIG, 1);
    must(mkdir("d", 0755)), must(mkdir("d/e", 0755));
    int dir = must(open("d", O_RDONLY | O_DIRECTORY)), path = must(open("d/e", O_PATH));
    done(open64("1.ckpt", O_CREAT | O_WRONLY, 0644));
    done(openat(dir, "2.ckpt", O_CREAT | O_WRONLY, 0644));
    done(openat64(path, "3.ckpt", O_CREAT | O_WRONLY, 0644));
    done(creat("4.ckpt", 0644));
    done(creat64("5.ckpt", 0644));
    done(openat(dir, "e/../../6.ckpt", O_CREAT | O_RDWR | O_TRUNC, 0644));
    int fd = must(openat(path, "7.ckpt", O_CREAT | O_WRONLY, 0644));
    put(fd, p, BIG);
    must(chdir("d"));
    put(fd, p + 1, BIG - 1);
    close(fd);
    must(rename("e/7.ckpt", "8.ckpt"));
    must(renameat(path, "3.ckpt", dir, "9.ckpt"));
    done(open("10.ckpt", O_CREAT | O_WRONLY, 0644));
    must(fchdir(path));
    must(rename("../10.ckpt", "10.ckpt"));
    must(linkat(dir, "2.ckpt", path, "11.ckpt", 0));
    must(unlinkat(dir, "2.ckpt", 0));
    must(mkdirat(path, "f", 0755));
    done(openat(AT_FDCWD, "f/12.ckpt", O_CREAT | O_WRONLY, 0644));
    must(unlinkat(path, "f/12.ckpt", 0));
    must(unlinkat(path, "f", AT_REMOVEDIR));
    memset(name, 'n', 255), name[255] = 0, memcpy(name + 250, ".ckpt", 5);
    done(open(name, O_CREAT | O_WRONLY, 0644));
    done(open("a b\n\xc3\xa4\xff'\"*.ckpt", O_CREAT | O_WRONLY, 0644));
    must(chdir("/"));
    struct stat st;
    must(fstatat(path, "10.ckpt", &st, 0));
    printf("%lld\n", (long long)st.st_size);
    return 0;
}
