/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk.c -- sizes of files just written, as ftw, nftw and fts say them
 * run: captures=4
 *
 * Right: as the program wrote them.
 */
#include "helper.h"
#include <fts.h>
#include <ftw.h>

static int each(const char *path, const struct stat *status, int kind)
{
    if (kind == FTW_F && strstr(path, ".ckpt"))
        printf("%s %lld\n", path, (long long)status->st_size);
    return 0;
}

static int each_more(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)where;
    return each(path, status, kind);
}

int main(void)
{
    must(mkdir("d", 0755));
    save("d/a.ckpt", 20 * MIB, 1);
    must(ftw("d", each, 4));
    save("d/a.ckpt", 21 * MIB, 1);
    must(nftw("d", each_more, 4, FTW_PHYS));
    save("d/a.ckpt", 22 * MIB, 1);
    char *paths[] = {"d", NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL, NULL);
    check(walk != NULL);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        if (entry->fts_info == FTS_F)
            printf("%s %lld\n", entry->fts_path, (long long)entry->fts_statp->st_size);
        if (entry->fts_info != FTS_D)
            continue;
        save("d/a.ckpt", 23 * MIB, 1);
        for (entry = fts_children(walk, 0); entry != NULL; entry = entry->fts_link)
            printf("%s %lld\n", entry->fts_name, (long long)entry->fts_statp->st_size);
    }
    return fts_close(walk);
}
