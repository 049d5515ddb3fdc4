/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * try.h -- the parts of portusctl try: runs, trees of files, contents, saves
 */
#ifndef PORTUS_CTL_TRY_H
#define PORTUS_CTL_TRY_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* --- try_tree.c: what stands in a directory --- */

#define TREE_BLOCK 16384u

struct tree_entry {
    char *path; /* below the directory */
    struct stat status;
    char *target;         /* of a symbolic link, or the extended attributes of a file; or NULL */
    uint64_t *block;      /* of a file: a hash of each TREE_BLOCK bytes, the last may be shorter */
    size_t blocks, zeros; /* zeros: of blocks that are all zeros */
    int error;            /* it cannot be read: errno */
};

struct tree {
    struct tree_entry *entry; /* sorted by path */
    size_t count;
};

/* Reads all of a directory; waits for files that are live. 0 or a negative errno. */
int tree_read(struct tree *tree, const char *directory);
void tree_free(struct tree *tree);
const struct tree_entry *tree_find(const struct tree *tree, const char *path);

/* Reads one file's blocks. 0 or a negative errno. */
int tree_read_file(struct tree_entry *entry, const char *path);

/* Copies what is in one directory into another that is empty, or removes a directory. */
int tree_copy(const char *from, const char *to);
int tree_remove(const char *directory);

/* What differs: of which path, what of it, in words. */
struct difference {
    char *path, *what, *says;
};

struct differences {
    struct difference *list;
    size_t count;
};

void differences_add(struct differences *out, const char *path, const char *what,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
void differences_append(struct differences *out, const struct differences *list);
bool differences_have(const struct differences *list, const char *path); /* one of that path */
void differences_free(struct differences *list);

/* Adds how other differs from plain. */
void tree_compare(struct differences *out, const struct tree *plain, const struct tree *other);

/*
 * Moves those differences that a second plain run shows, too, to `own`: the same of the same
 * path, or names that are alike but for their digits.
 */
void differences_split(struct differences *list, const struct differences *again,
                       struct differences *own);

/* --- try_known.c: contents that plain runs gave to files --- */

struct known {
    struct tree_entry *entry;
    size_t count, room;
};

void known_add(struct known *known, const char *path, const char *name);
void known_free(struct known *known);

/* SHORT: the beginning of one. PATCHED: but for a few blocks that are written again later. */
enum known_as { KNOWN_WHOLE, KNOWN_SHORT, KNOWN_PATCHED, KNOWN_NOT };
enum known_as known_judge(const struct known *known, const struct tree_entry *entry);

/* --- try_run.c: one run of the command --- */

enum try_way { TRY_PLAIN, TRY_REPORT, TRY_SHIM };
enum try_victim { TRY_NOBODY, TRY_PROGRAM, TRY_ALL };

struct try_run {
    enum try_way way;
    const char *directory; /* where it runs */
    const char *name;      /* of the files of its output in `work` */
    char **argv;
    const char *work, *shim;
    uint64_t limit_ns; /* then it is killed, and late; UINT64_MAX: none */
    enum try_victim victim;
    uint64_t kill_ns;     /* after its beginning; of a captured run: after its first save began */
    rlim_t file_size;     /* RLIM_INFINITY, or a limit */
    struct known *record; /* contents are added as files are closed */
    /* What came out: */
    int status; /* of wait(2) */
    bool late, killed;
    bool left;         /* processes were left when it had ended; they are killed */
    uint64_t ns;       /* until its end */
    uint64_t agent_ns; /* from there until its agent had ended */
};

/* Set by a signal: everything ends soon. */
extern volatile sig_atomic_t try_interrupted;

/* Once, before the first run. 0 or a negative errno. */
int try_begin(void);

/* Runs it, and returns when no process of it is left. 0 or a negative errno. */
int try_run(struct try_run *run);

/* The path of one of its files: "out", "err", "log", "trace". Returns out. */
char *try_file(char out[PATH_MAX], const struct try_run *run, const char *what);

/* Runs a helper (mount, mkfs); its exit status, or -1. */
int try_helper(const char *const *argv);

/* --- try_saves.c: what a timeline (PORTUS_TRACE) says of the saves of a run --- */

struct save {
    char *path;   /* below the run's directory if it is there */
    char *reason; /* it was not captured: why; else NULL */
    uint64_t size, ns;
    bool closed; /* else the last two are not known */
};

struct saves {
    struct save *list;
    size_t count;
    uint64_t span_ns;        /* from the beginning of the first to the end of the last */
    uint64_t wait_ns;        /* in calls that waited */
    uint64_t end_ns;         /* of it: at the end of the program */
    uint64_t bytes_captured; /* by all captures */
};

/* 0 or a negative errno. */
int saves_read(struct saves *saves, const char *trace, const char *directory);
void saves_free(struct saves *saves);

/* --- the whole trial --- */

struct outcome {
    struct tree files, output;
    int status;
    bool late, left;
    uint64_t ns, agent_ns;
};

struct trial {
    char **argv;
    const char *from;
    char work[PATH_MAX], directory[PATH_MAX], shim[PATH_MAX];
    uint64_t limit_ns, kills;
    bool progress;
    struct known known;
    struct outcome plain, shimmed;
    struct differences found, own; /* by Portus; and those that plain runs have, too */
    struct saves plain_saves, saves;
    struct {
        uint64_t runs, program, all, idle;                       /* idle: it had ended before */
        uint64_t whole, shorter, patched, unknown, incomparable; /* files */
        uint64_t resumed, not_resumed;
        bool resumes; /* a plain run does, as far as it was tried */
    } killed;
    struct {
        const char *how; /* "a disk of", "a file size limit of"; NULL: not tried */
        const char *why; /* not */
        uint64_t bytes;
        int plain_status, status;
    } full;
};

/* Runs in its directory as it is, or a fresh one, and reads what came out. 0 or a negative errno.
 */
int trial_run(struct trial *trial, struct try_run *run, struct outcome *outcome);
int trial_run_fresh(struct trial *trial, struct try_run *run, struct outcome *outcome);
void outcome_free(struct outcome *outcome);
/* Adds how other differs; not output: what it has said does not count. */
void outcome_compare(struct differences *out, const struct outcome *plain,
                     const struct outcome *other, bool output);
struct try_run trial_plan(struct trial *trial, enum try_way way, const char *name);

/* try_harm.c: kills, and a full disk. 0 or a negative errno. */
int trial_kill(struct trial *trial);
int trial_fill(struct trial *trial);

/* try_report.c: the verdict, with the evidence. An exit status. */
int trial_report(const struct trial *trial, bool json);

#endif
