/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unmount.c -- a file system is unmounted right after a save to it
 * run: root captures-all=2
 *
 * Right: it is not busy, and all is there when it is mounted again.
 */
#include "helper.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/xattr.h>

static const char how[] = "lowerdir=low,upperdir=up,workdir=work";

int main(void)
{
    must(unshare(CLONE_NEWNS));
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    must(mkdir("low", 0755)), must(mkdir("up", 0755)), must(mkdir("work", 0755));
    must(mkdir("m", 0755));
    for (int i = 0; i < 2; i++) {
        if (mount("overlay", "m", "overlay", 0, how) != 0)
            must(mount("up", "m", NULL, MS_BIND, NULL));
        save(i == 0 ? "m/a.ckpt" : "m/b.ckpt", 8 * BIG, (uint64_t)i);
        must(i == 0 ? umount("m") : umount2("m", 0));
    }
    show("up/a.ckpt"), show("up/b.ckpt");
    removexattr("up", "trusted.overlay.uuid"); /* a new one each time */
    return bare("rm -rf work");
}
