/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * others.c -- another process of the same job uses files that this one has just closed
 * run: captures=5
 *
 * Right: it sees sizes and bytes as if they were in the files already, may read,
 * rename, link, truncate, rewrite and delete them, and nothing is lost or undone.
 */
#include "helper.h"
#include <spawn.h>

extern char **environ;

static int other(void)
{
    printf("%lld %lld\n", size_of("a.ckpt"), size_of("b.ckpt"));
    must(rename("a.ckpt", "a2.ckpt"));
    show("a2.ckpt");
    int fd = must(open("b.ckpt", O_WRONLY));
    printf("%lld\n", (long long)lseek(fd, 0, SEEK_END));
    put(fd, "appended", 8);
    put_at(fd, "patched", 7, 5);
    close(fd);
    save("c.ckpt", BIG, 33); /* over the parent's */
    must(truncate("d.ckpt", 1000));
    must(link("e.ckpt", "e2.ckpt"));
    must(unlink("e.ckpt"));
    must(chmod("f.ckpt", 0600));
    show("f.ckpt");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return other();
    for (int round = 0; round < 5; round++) {
        char name[8] = "a.ckpt";
        for (; name[0] <= 'f'; name[0]++)
            save(name, 4 * MIB + (size_t)name[0], (uint64_t)round);
        char *arguments[] = {argv[0], "other", NULL};
        pid_t pid;
        check(posix_spawn(&pid, argv[0], NULL, NULL, arguments, environ) == 0);
        reap("other", pid);
        for (name[0] = 'b'; name[0] <= 'd'; name[0]++)
            show(name);
        save("e2.ckpt", BIG, 9);
        must(unlink("e2.ckpt"));
    }
    return 0;
}
