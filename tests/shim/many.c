/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many.c -- a large shard, then 1000 small files beside it, then a marker above
 * run: captures=1 captures-all=900
 *
 * Right: all files, whole; the marker is not there before them.
 */
#include "helper.h"

int main(void)
{
    char *p = bytes(8 * MIB, 1), name[32];
    must(mkdir("d", 0755));
    save("d/shard.ckpt", 16 * MIB, 9);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "d/%u", i);
        int fd = create(name);
        put(fd, p + i, i * 7 % 4001);
        if (i % 3 == 0)
            put(fd, p, i % 10);
        check(close(fd) == 0);
        if (i % 100 == 50)
            save(i % 200 == 50 ? "d/more.ckpt" : "d/other.ckpt", BIG, i);
    }
    save("latest", 9, 1);
    bare("cat d/* | sha256sum; ls d | wc -l; stat -c '%n %s' latest d/*.ckpt");
    return 0;
}
