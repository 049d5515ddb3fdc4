/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * holes.c -- SEEK_DATA, SEEK_HOLE and FIEMAP right after a write, during it and after close
 * run: captures=1
 *
 * Right: what was written is never reported as a hole, since copy tools skip holes.
 */
#include "helper.h"
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

static void map(int fd)
{
    off_t end = lseek(fd, 0, SEEK_END);
    printf("end %lld:", (long long)end);
    for (off_t at = 0; at < end;) {
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0)
            break;
        at = lseek(fd, data, SEEK_HOLE);
        printf(" data %lld-%lld", (long long)data, (long long)at);
    }
    union {
        struct fiemap map;
        char room[sizeof(struct fiemap) + 64 * sizeof(struct fiemap_extent)];
    } f = {.map = {.fm_length = FIEMAP_MAX_OFFSET, .fm_flags = FIEMAP_FLAG_SYNC,
                   .fm_extent_count = 64}};
    uint64_t mapped = 0;
    if (ioctl(fd, FS_IOC_FIEMAP, &f) == 0)
        for (unsigned i = 0; i < f.map.fm_mapped_extents; i++)
            if (!(f.map.fm_extents[i].fe_flags & FIEMAP_EXTENT_UNWRITTEN))
                mapped += f.map.fm_extents[i].fe_length;
    printf(" mapped %llu\n", (unsigned long long)mapped);
}

int main(void)
{
    char *p = bytes(8 * MIB, 1);
    int fd = create("a.ckpt");
    put(fd, p, 4 * MIB);
    map(fd);
    put_at(fd, p, 2 * MIB, 16 * MIB);
    map(fd);
    put_at(fd, p, 8 * MIB, 4 * MIB);
    close(fd);
    fd = must(open("a.ckpt", O_RDONLY));
    map(fd);
    close(fd);
    save("b.ckpt", 8 * MIB, 3);
    printf("cp %d\n", bare("cp --sparse=auto b.ckpt c; cmp b.ckpt c"));
    save("b.ckpt", 8 * MIB, 4);
    printf("cp %d\n", bare("cp --sparse=always --reflink=auto b.ckpt d; cmp b.ckpt d"));
    return 0;
}
