/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many_open.c -- 1100 files open and written at the same time, in turns
 * run: captures-all=500
 *
 * Right: all of them, though there is not room for so many with the agent.
 */
#include "helper.h"
#include <sys/resource.h>

int main(void)
{
    enum { FILES = 1100 };
    static int fd[FILES];
    struct rlimit l;
    must(getrlimit(RLIMIT_NOFILE, &l));
    l.rlim_cur = l.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &l));
    int files = l.rlim_cur > FILES + 50 ? FILES : (int)l.rlim_cur - 50;
    char *p = bytes(BIG, 1), name[16];
    save("first.ckpt", BIG, 2);
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "%d.ckpt", i);
        fd[i] = create(name);
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < files; i++)
            put(fd[i], p + i, (size_t)(4000 + 7 * i + round));
    put_at(fd[7], p, 10, 5);
    for (int i = files; i-- > 0;)
        check(close(fd[i]) == 0);
    save("last.ckpt", BIG, 3);
    return 0;
}
