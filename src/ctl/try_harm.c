// SPDX-License-Identifier: BSD-3-Clause
/*
 * try_harm.c -- portusctl try: kills at random instants, and a full disk
 *
 * What a killed run leaves is compared with what plain runs have written: each file must be
 * one of these contents, or the beginning of one. Whether calls have taken effect in their
 * order is seen by running the command again, which must come to the same end. What looks
 * wrong is looked for in plain runs that are killed as well: what they have, too, is the
 * command's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/text.h"
#include "ctl/try.h"

#define CONTROLS 5
#define IMAGE_LEAST (24ull << 20)
#define FILL_LEAST (4ull << 20)
#define MARGIN (1ull << 20)

static double chance(void)
{
    uint32_t number = 0;

    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return 0.5;
    return (double)number / 4294967296.0;
}

/* Judges what a killed run has left; what is no known content goes to `doubts`. */
static void judge(struct trial *trial, const struct tree *files, struct differences *doubts,
                  const char *when, bool count)
{
    uint64_t counts[KNOWN_NOT + 1] = {0};

    for (size_t i = 0; i < files->count; i++) {
        const struct tree_entry *entry = &files->entry[i];
        enum known_as as;

        if (!S_ISREG(entry->status.st_mode))
            continue;
        if (differences_have(&trial->own, entry->path)) { /* it has other bytes in each run */
            trial->killed.incomparable += count;
            continue;
        }
        as = entry->error != 0 ? KNOWN_NOT : known_judge(&trial->known, entry);
        counts[as]++;
        if (as == KNOWN_NOT)
            differences_add(
                doubts, entry->path, "killed",
                "%s, has %lld bytes that no plain run had in a file that it closed, nor "
                "are they the beginning of one",
                when, (long long)entry->status.st_size);
    }
    if (!count)
        return;
    trial->killed.whole += counts[KNOWN_WHOLE];
    trial->killed.shorter += counts[KNOWN_SHORT];
    trial->killed.patched += counts[KNOWN_PATCHED];
}

/* Runs it again where it was killed: whether it comes to the end of the plain run. */
static int resume(struct trial *trial, enum try_way way, struct differences *out)
{
    struct try_run run = trial_plan(trial, way, way == TRY_PLAIN ? "resume-plain" : "resume");
    struct differences all = {0};
    struct outcome outcome;
    int error = trial_run(trial, &run, &outcome);

    if (error != 0)
        return error;
    outcome_compare(&all, &trial->plain, &outcome, false); /* it goes on, and says so */
    for (size_t i = 0; i < all.count; i++) {
        const struct difference *difference = &all.list[i];

        /* What the killed run had under names of its own may stay. */
        if (strcmp(difference->what, "extra") == 0 ||
            differences_have(&trial->own, difference->path))
            continue;
        differences_add(out, difference->path, difference->what, "%s", difference->says);
    }
    differences_free(&all);
    outcome_free(&outcome);
    return 0;
}

/* One kill, after so much of the time that it takes. Not killed: it had ended before. */
static int kill_once(struct trial *trial, enum try_way way, enum try_victim victim, double part,
                     struct differences *doubts, struct differences *ends, bool *was)
{
    struct try_run run = trial_plan(trial, way, way == TRY_PLAIN ? "kill-plain" : "kill");
    uint64_t whole = way == TRY_PLAIN ? trial->plain.ns : trial->saves.span_ns;
    struct differences end = {0};
    struct outcome outcome;
    char when[100];
    int error;

    run.victim = victim;
    run.kill_ns = (uint64_t)((double)whole * part);
    error = trial_run_fresh(trial, &run, &outcome);
    if (error != 0)
        return error;
    *was = run.killed;
    if (!run.killed)
        goto free;
    snprintf(when, sizeof(when), "killed %.3f s after the first save began (%s)",
             (double)run.kill_ns / 1e9, victim == TRY_ALL ? "with the agent" : "not the agent");
    judge(trial, &outcome.files, doubts, when, way == TRY_SHIM);
    error = resume(trial, way, &end);
    if (error == 0 && way == TRY_SHIM)
        *(end.count == 0 ? &trial->killed.resumed : &trial->killed.not_resumed) += 1;
    for (size_t i = 0; i < end.count; i++)
        differences_add(ends, end.list[i].path, "resumed", "%s and run again, %s", when,
                        end.list[i].says);
    differences_free(&end);
free:
    outcome_free(&outcome);
    return error;
}

int trial_kill(struct trial *trial)
{
    struct differences doubts = {0}, ends = {0}, plain_doubts = {0}, plain_ends = {0};
    struct differences left = {0};
    int error = 0;

    trial->killed.resumes = true;
    if (trial->saves.count == 0) /* then nothing is ours */
        trial->kills = 0;
    for (uint64_t i = 0; i < trial->kills && error == 0; i++) {
        enum try_victim victim = i % 2 == 0 ? TRY_ALL : TRY_PROGRAM;
        bool was = false;

        error = kill_once(trial, TRY_SHIM, victim, ((double)i + chance()) / (double)trial->kills,
                          &doubts, &ends, &was);
        trial->killed.runs++;
        trial->killed.idle += !was;
        trial->killed.all += was && victim == TRY_ALL;
        trial->killed.program += was && victim == TRY_PROGRAM;
    }
    for (unsigned i = 0; i < CONTROLS && error == 0 && (doubts.count > 0 || ends.count > 0); i++) {
        bool was;

        error = kill_once(trial, TRY_PLAIN, TRY_PROGRAM, (i + chance()) / CONTROLS, &plain_doubts,
                          &plain_ends, &was);
    }
    for (size_t i = 0; i < doubts.count; i++) {
        const struct difference *doubt = &doubts.list[i];

        if (differences_have(&plain_doubts, doubt->path))
            trial->killed.unknown++;
        else
            differences_add(&left, doubt->path, doubt->what, "%s", doubt->says);
    }
    trial->killed.resumes = plain_ends.count == 0;
    differences_append(&trial->found, &left);
    if (trial->killed.resumes)
        differences_append(&trial->found, &ends);
    differences_free(&doubts);
    differences_free(&ends);
    differences_free(&plain_doubts);
    differences_free(&plain_ends);
    differences_free(&left);
    return error;
}

/* --- a full disk --- */

static uint64_t bytes_of(const struct tree *tree)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < tree->count; i++)
        bytes += (uint64_t)tree->entry[i].status.st_blocks * 512;
    return bytes;
}

/* Mounts a file system of that size at mount; in a namespace of our own, so it goes with us. */
static const char *mount_image(const char *image, const char *mount_at, uint64_t bytes)
{
    const char *const make[] = {"mkfs.ext4", "-q", "-F", "-m", "0", image, NULL};
    const char *const attach[] = {"mount", "-o", "loop", image, mount_at, NULL};
    int fd;

    if (geteuid() != 0)
        return "not root: no loop mount";
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return "no mount namespace";
    fd = open(image, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 || mkdir(mount_at, 0777) < 0) {
        if (fd >= 0)
            close(fd);
        return "no image of a disk";
    }
    close(fd);
    if (try_helper(make) != 0)
        return "mkfs.ext4 does not work";
    return try_helper(attach) == 0 ? NULL : "a loop mount is not allowed";
}

/* Leaves so many bytes free. */
static int occupy(const char *mount_at, uint64_t wanted)
{
    char path[PATH_MAX];
    struct statvfs status;
    uint64_t free;
    int fd, error = 0;

    snprintf(path, sizeof(path), "%.*s/filler", PATH_MAX - 10, mount_at);
    if (statvfs(mount_at, &status) < 0)
        return -errno;
    free = (uint64_t)status.f_bavail * status.f_frsize;
    if (free <= wanted)
        return 0;
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fallocate(fd, 0, 0, (off_t)(free - wanted)) < 0)
        error = -errno;
    if (fd >= 0)
        close(fd);
    return error;
}

/*
 * What is whole in both plain runs must be whole, and nothing may have bytes that no plain
 * run has: how much fits depends a little on when the file system gives blocks back.
 */
static void compare_full(struct trial *trial, const struct outcome plain[2],
                         const struct outcome *other)
{
    if (plain[0].status == plain[1].status && plain[0].status != other->status)
        differences_add(&trial->found, "end", "full disk",
                        "is another with a full disk: wait status %d, plainly %d", other->status,
                        plain[0].status);
    for (size_t i = 0; i < plain[0].files.count; i++) {
        const struct tree_entry *a = &plain[0].files.entry[i];
        const struct tree_entry *again = tree_find(&plain[1].files, a->path);
        const struct tree_entry *b = tree_find(&other->files, a->path);
        enum known_as one, two;

        if (!S_ISREG(a->status.st_mode) || differences_have(&trial->own, a->path))
            continue;
        one = known_judge(&trial->known, a);
        if (again == NULL || known_judge(&trial->known, again) != one)
            continue;
        two = b != NULL ? known_judge(&trial->known, b) : KNOWN_NOT;
        if (one == KNOWN_WHOLE && two != KNOWN_WHOLE)
            differences_add(&trial->found, a->path, "full disk",
                            "is not whole when the disk is full, plainly it is");
        else if (one != KNOWN_NOT && two == KNOWN_NOT && b != NULL)
            differences_add(&trial->found, a->path, "full disk",
                            "has bytes that no plain run wrote when the disk is full");
    }
}

static int run_full(struct trial *trial, const char *directory, rlim_t limit)
{
    struct outcome outcome[3] = {0};
    int error = 0;

    for (unsigned i = 0; i < 3 && error == 0; i++) {
        struct try_run run =
            trial_plan(trial, i < 2 ? TRY_PLAIN : TRY_SHIM, i < 2 ? "full-plain" : "full");

        run.directory = directory;
        run.file_size = limit;
        error = trial_run_fresh(trial, &run, &outcome[i]);
    }
    if (error == 0) {
        trial->full.plain_status = outcome[0].status;
        trial->full.status = outcome[2].status;
        compare_full(trial, outcome, &outcome[2]);
    }
    for (unsigned i = 0; i < 3; i++)
        outcome_free(&outcome[i]);
    return error;
}

/* Half of the largest file that the command has written. */
static uint64_t half_of_largest(const struct trial *trial)
{
    uint64_t largest = 0;

    for (size_t i = 0; i < trial->plain.files.count; i++) {
        const struct stat *status = &trial->plain.files.entry[i].status;

        if (S_ISREG(status->st_mode) && (uint64_t)status->st_size > largest)
            largest = (uint64_t)status->st_size;
    }
    return largest / 2;
}

int trial_fill(struct trial *trial)
{
    uint64_t all = bytes_of(&trial->plain.files), before = 0, room;
    char image[PATH_MAX], at[PATH_MAX], directory[PATH_MAX];
    struct tree initial;
    int error;

    if (trial->from != NULL && tree_read(&initial, trial->from) == 0) {
        before = bytes_of(&initial);
        tree_free(&initial);
    }
    if (all < before + FILL_LEAST) {
        trial->full.why = "the command writes too little to fill one";
        return 0;
    }
    room = before + (all - before) * 6 / 10;
    snprintf(image, sizeof(image), "%.*s/image", PATH_MAX - 10, trial->work);
    snprintf(at, sizeof(at), "%.*s/disk", PATH_MAX - 20, trial->work);
    snprintf(directory, sizeof(directory), "%.*s/run", PATH_MAX - 10, at);
    trial->full.why = mount_image(image, at, room + room / 8 + IMAGE_LEAST);
    if (trial->full.why == NULL) {
        trial->full.how = "a disk with";
        trial->full.bytes = room;
        error = occupy(at, room + MARGIN);
        if (error == 0)
            error = run_full(trial, directory, RLIM_INFINITY);
        if (umount(at) < 0 || rmdir(at) < 0)
            complain("try: %s: %s", at, strerror(errno));
        return error;
    }
    trial->full.bytes = half_of_largest(trial);
    trial->full.how = "a file size limit of";
    return run_full(trial, trial->directory, trial->full.bytes);
}
