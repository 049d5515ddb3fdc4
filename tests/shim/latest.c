/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * latest.c -- shards, then the pointer: by rename, and by plain open in the directory above
 * run: captures=1 captures-all=9
 *
 * Right: whoever has read the pointer finds the shards whole, also by their size; the
 * older step goes after that.
 */
#include "helper.h"

static void point(const char *name, int step, int by_rename)
{
    char text[16];
    int n = snprintf(text, sizeof text, "step%d\n", step);
    int fd = create(by_rename ? "latest.tmp" : name);
    put(fd, text, (size_t)n);
    close(fd);
    if (by_rename)
        must(rename("latest.tmp", name));
}

int main(void)
{
    char name[48], command[160];
    for (int step = 0; step < 9; step++) {
        snprintf(name, sizeof name, "step%d", step);
        must(mkdir(name, 0755));
        for (int shard = 0; shard < 3; shard++) {
            snprintf(name, sizeof name, "step%d/%d.ckpt", step, shard);
            save(name, 2 * BIG + (size_t)shard, (uint64_t)(3 * step + shard));
        }
        point(step % 3 == 2 ? "newest" : "latest", step, step % 3 == 0);
        snprintf(command, sizeof command, "cat latest newest 2>/dev/null; stat -c '%%n %%s' step%d/*", step);
        bare(command);
        if (step == 0)
            continue;
        for (int shard = 0; shard < 3; shard++) {
            snprintf(name, sizeof name, "step%d/%d.ckpt", step - 1, shard);
            must(unlink(name));
        }
        snprintf(name, sizeof name, "step%d", step - 1);
        must(rmdir(name));
    }
    return 0;
}
