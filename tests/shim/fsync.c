/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fsync.c -- fsync, fdatasync, sync_file_range, syncfs, fadvise, fsync of the directory
 * run: captures=1
 *
 * Right: when they return the bytes are in the file: a process without the shim
 * that does not even open it sees its size.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(BIG, 1);
    int fd = create("a.ckpt"), dir = must(open(".", O_RDONLY | O_DIRECTORY));
    put(fd, p, BIG);
    printf("%d\n", fsync(fd));
    bare("stat -c %s a.ckpt");
    put(fd, p, BIG);
    printf("%d\n", fdatasync(fd));
    bare("stat -c %s a.ckpt");
    put(fd, p, BIG);
    printf("%d\n", fsync(dir));
    bare("stat -c %s a.ckpt");
    put(fd, p, BIG);
    printf("%d\n", syncfs(dir));
    bare("stat -c %s a.ckpt");
    put(fd, p, BIG);
    printf("%d\n", sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
    printf("%d\n", posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    printf("%d\n", readahead(fd, 0, 4096) != 0);
    put(fd, p, 7);
    close(fd);
    sync();
    show("a.ckpt");
    bare("sha256sum a.ckpt");
    errno = 0;
    printf("%d %d %d\n", fsync(dir), fsync(99), errno);
    return 0;
}
