/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * save.c -- saves two checkpoints in turn, without an end, and says what is durable
 *
 *     save write DIRECTORY STEP     from this step on; "fsynced NAME STEP" once fsync has returned, "synced" once
 *                                   that of the directory has, too
 *     save try DIRECTORY STEP       as write; a call that fails is told of ("failed NAME STEP CALL"), the next step follows
 *     save look FILE...             prints the name of each, and the step whose bytes it holds; "torn": none
 *
 * With SAVE_UNSYNCED in the environment fsync is called until both are there, and "saved" is said then.
 * With SAVE_MARK in the environment, the name of a dm-log-writes device, what it says is marked in that log, too.
 * Each 8 bytes of a file are its number and the step, so that a mix of two is seen.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BLOCK (128 << 10)
#define BLOCKS 3

static uint64_t block[BLOCK / 8];
static int directory;

/* In the log: after what had been flushed by now. */
static void mark(const char *device, const char *text)
{
    static int control = -1;
    char buffer[1024] = "";
    struct dm_ioctl *request = (void *)buffer;
    struct dm_target_msg *message = (void *)(request + 1);

    if (control < 0)
        control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
    *request = (struct dm_ioctl){.version = {4, 0, 0}, .data_size = sizeof(buffer), .data_start = sizeof(*request)};
    snprintf(request->name, sizeof(request->name), "%s", device);
    snprintf(message->message, 256, "mark %s", text);
    for (char *space = strchr(message->message + 5, ' '); space != NULL; space = strchr(space, ' '))
        *space = '_';
    if (ioctl(control, DM_TARGET_MSG, buffer) != 0)
        perror("mark");
}

static void say(const char *what, const char *name, uint64_t step)
{
    char text[100];

    snprintf(text, sizeof(text), "%s %s %llu", what, name, (unsigned long long)step);
    if (getenv("SAVE_MARK") != NULL)
        mark(getenv("SAVE_MARK"), text);
    printf("%s\n", text);
}

static int fail(const char *name, uint64_t step, const char *what)
{
    printf("failed %s %llu %s: %s\n", name, (unsigned long long)step, what, strerror(errno));
    return 1;
}

static int save(unsigned file, uint64_t step)
{
    char name[] = "a.ckpt";
    int unsynced = step > 2 && getenv("SAVE_UNSYNCED") != NULL;
    int fd, error = 0;

    name[0] = (char)('a' + file);
    for (size_t i = 0; i < BLOCK / 8; i++)
        block[i] = step << 8 | file;
    fd = open("new.ckpt", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        return fail(name, step, "open");
    for (unsigned i = 0; i < BLOCKS && error == 0; i++)
        if (write(fd, block, BLOCK) != BLOCK)
            error = fail(name, step, "write");
    if (error == 0 && !unsynced && fsync(fd) != 0)
        error = fail(name, step, "fsync");
    if (error == 0 && !unsynced)
        say("fsynced", name, step);
    if (close(fd) != 0 && error == 0)
        error = fail(name, step, "close");
    if (error != 0)
        return error;
    if (rename("new.ckpt", name) != 0)
        return fail(name, step, "rename");
    if (!unsynced && fsync(directory) != 0) /* the name, too */
        return fail(name, step, "fsync of the directory");
    say(unsynced ? "saved" : "synced", name, step);
    if (unsynced)
        usleep(150000); /* for the journal to be written between saves, and in the middle of some */
    return 0;
}

/* 0: none is torn. One that is not there is not spoken of. */
static int look(const char *path)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    uint64_t first = 0;
    int fd = open(path, O_RDONLY);
    ssize_t n;
    size_t size = 0, same = 0;

    if (fd < 0)
        return 0;
    while ((n = read(fd, block, BLOCK)) > 0) {
        if (size == 0)
            first = block[0];
        for (size_t i = 0; i < (size_t)n / 8; i++)
            same += block[i] == first;
        size += (size_t)n;
    }
    close(fd);
    if (n < 0 || size != BLOCKS * BLOCK || same != size / 8) {
        printf("%s torn\n", name);
        return 1;
    }
    printf("%s %llu\n", name, (unsigned long long)(first >> 8));
    return 0;
}

int main(int argc, char **argv)
{
    int torn = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc >= 3 && strcmp(argv[1], "look") == 0) {
        for (int i = 2; i < argc; i++)
            torn |= look(argv[i]);
        return torn;
    }
    if (argc != 4 || chdir(argv[2]) != 0)
        return 2;
    directory = open(".", O_RDONLY | O_DIRECTORY);
    for (uint64_t step = strtoull(argv[3], NULL, 10);; step++)
        if (save(step % 2, step) != 0) {
            if (strcmp(argv[1], "try") != 0)
                return 1;
            usleep(100000);
        }
}
