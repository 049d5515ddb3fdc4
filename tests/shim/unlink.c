/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unlink.c -- unlink of a file that is still written, and right after close; the name again
 * run: captures=2
 *
 * Right: the open file lives on without a name; a new file of that name gets
 * nothing of the old one's; no one keeps it open.
 */
#include "helper.h"

/* Descriptors of this process on files that have no name any more. */
static int nameless(void)
{
    char link[64], target[4200];
    int found = 0;
    for (int fd = 0; fd < 1100; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof target - 1);
        found += n > 10 && memcmp(target + n - 10, " (deleted)", 10) == 0 &&
                 strncmp(target, "/memfd:", 7) != 0;
    }
    return found;
}

int main(void)
{
    char *p = bytes(4 * MIB, 1);
    int fd = must(open("a.ckpt", O_CREAT | O_TRUNC | O_RDWR, 0644));
    put(fd, p, BIG);
    must(unlink("a.ckpt"));
    put(fd, p + 1, BIG);
    struct stat st;
    must(fstat(fd, &st));
    printf("links %d, size %lld\n", (int)st.st_nlink, (long long)st.st_size);
    show_fd("open", fd);
    save("a.ckpt", MIB, 2); /* another file of that name */
    put(fd, p, 100);
    show_fd("open", fd);
    close(fd);
    show("a.ckpt");
    for (int i = 0; i < 20; i++) {
        save("b.ckpt", BIG, (uint64_t)i);
        must(i % 2 ? unlink("b.ckpt") : unlinkat(AT_FDCWD, "b.ckpt", 0));
        printf("%d ", nameless()); /* NFS would keep it, and rmdir fail */
        if (i % 5 == 0)
            save("b.ckpt", 1000, 77);
        printf("%d ", access("b.ckpt", F_OK));
    }
    save("c.ckpt", BIG, 5);
    printf("%d\n", remove("c.ckpt"));
    /* no process has them open any more */
    bare("find /proc/[0-9]*/fd -lname \"$PWD/[bc].ckpt*\" 2>/dev/null; true");
    return 0;
}
