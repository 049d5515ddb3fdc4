/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unseen.c -- files that are renamed by a system call that has no libc
 * run: captures=2
 *
 * As Rust's tempfile crate does it: a size first (safetensors) or none, bytes, a rename
 * that no hook sees. Right: at the rename all bytes are in the file.
 */
#include "helper.h"
#include <sys/syscall.h>

#define MANY (64 * MIB)

static void replace(const char *temporary, const char *name, size_t sized, const char *data)
{
    static char back[4096];
    int fd = must(open(temporary, O_CREAT | O_EXCL | O_RDWR, 0600));

    if (sized > 0)
        must(ftruncate(fd, (off_t)sized));
    for (size_t done = 0; done < MANY; done += MANY / 4)
        put(fd, data + done, MANY / 4);
    put(fd, data, 100);
    must(syscall(SYS_renameat, AT_FDCWD, temporary, AT_FDCWD, name));
    /* What would stand there if all were killed now. */
    long got = must(syscall(SYS_pread64, fd, back, sizeof(back), MANY - 2000));
    printf("%s: %ld bytes, %s\n", name, got,
           memcmp(back, data + MANY - 2000, 2000) == 0 && memcmp(back + 2000, data, 100) == 0
               ? "whole"
               : "torn");
    must(close(fd));
}

int main(void)
{
    char *p = bytes(MANY, 1);

    memcpy(p, "\x80\x02", 2); /* a pickle */
    replace(".tmpAb3xYz", "sized.bin", MANY + 100, p);
    replace("sized.part", "other.bin", MANY + 100, p);
    replace(".tmp00Zz9a", "unsized.bin", 0, p);
    memcpy(p, "text", 4);
    replace(".tmp00Zz9b", "text.bin", 0, p);
    return 0;
}
