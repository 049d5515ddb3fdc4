/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * save.c -- saves two checkpoints in turn, without an end, and says what is durable
 *
 *     save write DIRECTORY STEP     from this step on; "synced NAME STEP" once both fsyncs have returned
 *     save look FILE                prints the step whose bytes the file holds; exit status 1: none
 *
 * Each 8 bytes of a file are its number and the step, so that a mix of two is seen.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (512 << 10)
#define BLOCKS 3

static uint64_t block[BLOCK / 8];
static int directory;

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int save(unsigned file, uint64_t step)
{
    char name[] = "a.ckpt";
    int fd;

    name[0] = (char)('a' + file);
    for (size_t i = 0; i < BLOCK / 8; i++)
        block[i] = step << 8 | file;
    fd = open("new.ckpt", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        return fail("open");
    for (unsigned i = 0; i < BLOCKS; i++)
        if (write(fd, block, BLOCK) != BLOCK)
            return fail("write");
    if (fsync(fd) != 0 || close(fd) != 0 || rename("new.ckpt", name) != 0)
        return fail("fsync, close or rename");
    if (fsync(directory) != 0) /* the name, too */
        return fail("fsync of the directory");
    printf("synced %s %llu\n", name, (unsigned long long)step);
    return 0;
}

static int look(const char *path)
{
    uint64_t first = 0;
    int fd = open(path, O_RDONLY);
    ssize_t n;
    size_t size = 0;

    if (fd < 0)
        return 1;
    while ((n = read(fd, block, BLOCK)) > 0) {
        if (size == 0)
            first = block[0];
        for (size_t i = 0; i < (size_t)n / 8; i++)
            if (block[i] != first)
                return 1;
        size += (size_t)n;
    }
    if (n < 0 || size != BLOCKS * BLOCK)
        return 1;
    printf("%llu\n", (unsigned long long)(first >> 8));
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && strcmp(argv[1], "look") == 0)
        return look(argv[2]);
    if (argc != 4 || strcmp(argv[1], "write") != 0 || chdir(argv[2]) != 0)
        return 2;
    directory = open(".", O_RDONLY | O_DIRECTORY);
    for (uint64_t step = strtoull(argv[3], NULL, 10);; step++)
        if (save(step % 2, step) != 0)
            return 1;
}
