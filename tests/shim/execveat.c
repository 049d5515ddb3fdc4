/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * execveat.c -- the program becomes a shell that writes on over what was just written
 * run: captures=2
 *
 * Right: the shell's word is in its place; a libc without the call (before 2.34) gets it
 * by another.
 */
#include "helper.h"

int execveat(int at, const char *path, char *const arguments[], char *const environment[],
             int flags) __attribute__((weak));

int main(void)
{
    char *p = bytes(BIG, 1), command[60];
    char *arguments[] = {(char *)"sh", (char *)"-c", command, NULL};
    int fd = create("a.ckpt");
    save("b.ckpt", 4 * BIG, 2); /* what is to be drained before */
    put(fd, p, BIG);
    must(lseek(fd, 100, SEEK_SET));
    snprintf(command, sizeof(command), "printf hello >&%d", fd);
    if (execveat != NULL)
        execveat(AT_FDCWD, "/bin/sh", arguments, environ, 0);
    else
        execve("/bin/sh", arguments, environ);
    return 1;
}
