/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy.h -- which files are captured, and why not
 */
#ifndef PORTUS_PRELOAD_POLICY_H
#define PORTUS_PRELOAD_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/writer.h"
#include "file.h"
#include "portus/reason.h"

enum verdict {
    VERDICT_CAPTURE,
    VERDICT_NOT_YET,  /* small so far: ask again at the next write */
    VERDICT_NOT_OURS, /* not a checkpoint: no word about it */
    VERDICT_EXCLUDED, /* PORTUS_EXCLUDE, beside live files: only kept in order */
    VERDICT_SAMPLE,   /* left plain on purpose, to be measured */
    VERDICT_REASONS,  /* from here on: why a checkpoint is not captured, as in reason.h */
    VERDICT_BEFORE = VERDICT_REASONS - 1,
#define VERDICT_REASON(name, label, words) VERDICT_##name,
    PORTUS_REASONS(VERDICT_REASON)
#undef VERDICT_REASON
        VERDICT_COUNT
};

/*
 * Judges a candidate before a write of length bytes. Fills in *claim for engaging (path lies in
 * path[size]). Called with the file's lock.
 */
enum verdict policy_judge(struct file *file, int fd, size_t length, struct portus_claim *claim,
                          char *path, size_t size);

/* Whether a candidate is one by its name, or by what is known of its first bytes. */
bool policy_named(const struct file *file, int fd);

/* The verdict that an engagement's error amounts to. */
enum verdict policy_verdict(int error);

/* Says once why checkpoints are written as usual, and counts. Returns whether to fail
   (PORTUS=require). why: a sentence for VERDICT_AGENT, or NULL. */
bool policy_refuse(struct file *file, enum verdict verdict, const char *path, const char *why);

/* The one line of a job that says what is on, before its first captured file at path. */
void policy_announce(const struct portus_writer *writer, const char *path, int fd);

/* A few words for the summary. */
const char *policy_words(enum verdict verdict);

/*
 * Before path is opened with flags by a call at directory `at`: waits if it would
 * create or empty a file beside live ones. 0 or an errno to fail with.
 */
int policy_open(int at, const char *path, int flags);

/*
 * What a path was before it is opened with flags. Only looked at where it matters: what
 * is emptied must be sent to the disk as the kernel would (habit.c), and without leases
 * (PORTUS_SHARED) only new files are captured. Otherwise WAS_NOT.
 */
enum before { WAS_NOT, WAS_EMPTY, WAS_FULL };
enum before policy_before(int at, const char *path, int flags);

/* After: whether a descriptor opened with these flags may become captured. */
void policy_opened(int fd, int flags, enum before before);

/* Whether it is on a file system that is captured by default. */
bool policy_local(int fd);

/* Whether a write of this file system's large files is faster in pieces. */
bool policy_pieces(int fd);

#endif
