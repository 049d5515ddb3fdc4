/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replaced.c -- a file takes another's place: by rename, and by being emptied
 * run: captures=4
 *
 * ext4 sends the new bytes on their way to the disk then (auto_da_alloc), so that a
 * power cut a moment later does not leave neither. Right: it does so as without the shim.
 */
#include "helper.h"
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#define MANY (8 * MIB)

/* Whether all of the file is on the disk within a few seconds. */
static int arrives(const char *name)
{
    union {
        struct fiemap map;
        char room[sizeof(struct fiemap) + 512 * sizeof(struct fiemap_extent)];
    } f;
    int fd = must(open(name, O_RDONLY)), waits = 1;

    for (int tries = 0; tries < 1000 && waits > 0; tries++) {
        memset(&f, 0, sizeof f);
        f.map.fm_length = FIEMAP_MAX_OFFSET;
        f.map.fm_extent_count = 512;
        must(ioctl(fd, FS_IOC_FIEMAP, &f.map));
        waits = f.map.fm_mapped_extents == 0;
        for (unsigned i = 0; i < f.map.fm_mapped_extents; i++)
            waits += (f.map.fm_extents[i].fe_flags &
                      (FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNWRITTEN)) != 0;
        usleep(10000);
    }
    must(close(fd));
    return waits == 0;
}

static void write_it(const char *name, const char *data)
{
    int fd = create(name);
    put(fd, data, MANY);
    must(close(fd));
}

int main(void)
{
    char *p = bytes(MANY, 1);

    write_it("new.ckpt", p);
    write_it("a.ckpt", p);
    write_it("a.tmp.ckpt", p);
    must(rename("a.tmp.ckpt", "a.ckpt"));
    printf("renamed: %d\n", arrives("a.ckpt"));
    write_it("a.ckpt", p);
    printf("emptied: %d\n", arrives("a.ckpt"));
    return 0;
}
