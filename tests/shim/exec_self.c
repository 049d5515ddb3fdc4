/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_self.c -- the program execs itself in mid-save and right after a close
 * run: captures=1
 *
 * Right: the new image goes on with the descriptor where it stood; a close-on-exec
 * one is closed; nothing that was written is lost.
 */
#include "helper.h"

int main(int argc, char **argv)
{
    char *p = bytes(BIG, 1);
    if (argc == 1) {
        int fd = create("a.ckpt");
        int cloexec = must(open("c.ckpt", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644));
        put(fd, p, BIG);
        put(cloexec, p + 1, BIG - 1);
        save("b.ckpt", BIG, 2);
        char number[16];
        snprintf(number, sizeof number, "%d", fd);
        fflush(stdout);
        execl(argv[0], argv[0], number, (char *)0);
        return 1;
    }
    int fd = atoi(argv[1]);
    printf("%lld %lld %lld\n", (long long)lseek(fd, 0, SEEK_CUR), size_of("b.ckpt"),
           size_of("c.ckpt"));
    show("b.ckpt");
    show("c.ckpt");
    if (argc == 3)
        return 0;
    put(fd, p + 3, BIG - 3);
    put_at(fd, p, 100, 0);
    printf("%lld\n", size_of("a.ckpt"));
    fflush(stdout);
    char *const again[] = {argv[0], argv[1], "last", NULL};
    errno = 0;
    int value = execv("nowhere", again);
    printf("%d %d\n", value, errno);
    put(fd, p, BIG); /* a failed exec changes nothing */
    fflush(stdout);
    execv(argv[0], again);
    return 1;
}
