/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syscall.c -- a save, a rename and more by libc's syscall()
 * run: captures=5 exit=7
 *
 * Right: as by the functions of those names, in one order with them; a call that the
 * kernel refuses is refused as it is there.
 */
#include "helper.h"
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static void said(const char *what, long result)
{
    printf("%s %ld %d\n", what, result, result < 0 ? errno : 0);
    errno = 0;
}

int main(void)
{
    char *p = bytes(BIG, 1), q[64];
    struct iovec vector[2] = {{p + 5, BIG - 5}, {p, 5}};
    struct open_how how = {.flags = O_CREAT | O_RDWR | O_EXCL, .mode = 0640};
    struct statx extended;
    struct stat status;
    int fd = (int)must(syscall(SYS_openat, AT_FDCWD, "a.ckpt", O_CREAT | O_RDWR, 0644));

    said("write", syscall(SYS_write, fd, p, BIG));
    said("writev", syscall(SYS_writev, fd, vector, 2));
    said("pwrite", syscall(SYS_pwrite64, fd, "patch", 5, 7l));
    said("pwritev2", syscall(SYS_pwritev2, fd, vector + 1, 1, 20l, 0l, 0));
    said("lseek", syscall(SYS_lseek, fd, 0l, SEEK_END));
    said("fstat", syscall(SYS_fstat, fd, &status)), said("size", status.st_size);
    said("newfstatat", syscall(SYS_newfstatat, AT_FDCWD, "a.ckpt", &status, 0));
    said("size", status.st_size);
    said("statx", syscall(SYS_statx, AT_FDCWD, "a.ckpt", 0, STATX_SIZE, &extended));
    said("size", (long)extended.stx_size);
    said("pread", syscall(SYS_pread64, fd, q, sizeof q, 3l));
    said("bytes", (long)(digest(q, sizeof q, 0) >> 1));
    said("dup", syscall(SYS_dup, fd) >= 0);
    said("fsync", syscall(SYS_fsync, fd));
    said("ftruncate", syscall(SYS_ftruncate, fd, (long)BIG));
    said("close", syscall(SYS_close, fd));
    said("rename", syscall(SYS_renameat2, AT_FDCWD, "a.ckpt", AT_FDCWD, "b.ckpt", 0));
    bare("sha256sum b.ckpt");

    fd = (int)must(syscall(SYS_openat2, AT_FDCWD, "c.ckpt", &how, sizeof how));
    put(fd, p, BIG);
    char *map = (char *)must(syscall(SYS_mmap, NULL, BIG, PROT_READ, MAP_SHARED, fd, 0l));
    said("mapped", memcmp(map, p, BIG));
    int out = create("d.ckpt");
    put(out, p + 1, BIG - 1);
    said("copy", syscall(SYS_copy_file_range, fd, &(off_t){0}, out, NULL, BIG, 0));
    said("sendfile", syscall(SYS_sendfile, out, fd, &(off_t){0}, 1000l));
    said("fchmod", syscall(SYS_fchmod, out, 0604));
    said("utimensat", syscall(SYS_utimensat, fd, NULL, ((struct timespec[2]){{1, 2}, {3, 4}}), 0));
    close(fd), close(out);

    fd = create("e.ckpt");
    put(fd, p, BIG);
    pid_t pid = (pid_t)must(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0l));
    if (pid == 0) {
        said("child", syscall(SYS_write, fd, p, 1000));
        fflush(stdout);
        syscall(SYS_exit_group, 5);
    }
    reap("clone", pid);
    said("after", syscall(SYS_write, fd, p, 9));
    close(fd);
    show("e.ckpt");

    save("f.ckpt", BIG, 2);
    said("mkdir", syscall(SYS_mkdirat, AT_FDCWD, "d", 0755));
    said("link", syscall(SYS_linkat, AT_FDCWD, "f.ckpt", AT_FDCWD, "d/g.ckpt", 0));
    said("unlink", syscall(SYS_unlinkat, AT_FDCWD, "f.ckpt", 0));
    said("truncate", syscall(SYS_truncate, "d/g.ckpt", 1000l));

    said("bad descriptor", syscall(SYS_write, 300, p, 9));
    said("bad path", syscall(SYS_openat2, AT_FDCWD, "x", (void *)8, sizeof how));
    said("bad number", syscall(100000));
    said("negative", syscall(-1));
    said("not there", syscall(SYS_unlinkat, AT_FDCWD, "nowhere", 0));
    fd = create("g.ckpt");
    put(fd, p, BIG);
    said("fault", syscall(SYS_write, fd, (void *)8, 100));
    fflush(stdout);
    return (int)syscall(SYS_exit_group, 7) + 1;
}
