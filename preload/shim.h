/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shim.h -- this process's shim: its configuration, its agent, its birth and death
 */
#ifndef PORTUS_PRELOAD_SHIM_H
#define PORTUS_PRELOAD_SHIM_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/writer.h"
#include "common/env.h"

struct shim {
    struct portus_env env;
    struct portus_writer writer;
    struct portus_link look;                /* of a process that only waits for others */
    _Atomic bool connected;                 /* writer is open */
    _Atomic bool looking;                   /* look is open */
    _Atomic bool ending;                    /* the program is at its end: nothing new is captured */
    _Atomic uint64_t refused_until;         /* no agent could be had: not tried at every write */
    struct portus_control *_Atomic control; /* of writer or look; never unmapped */
    _Atomic uint32_t watching;              /* the watcher's thread runs */
    _Atomic bool unwatched;                 /* it is to end as soon as no file is live */
    _Atomic uint32_t users;                 /* see shim_use */
    pid_t pid;                              /* the process that all this belongs to */
    struct portus_lock lock;                /* of opening and closing the writer */
};

extern struct shim shim;

/*
 * Signals that may run a handler are blocked while a lock of ours is held: a
 * handler that writes would wait for its own thread. errno is kept, too.
 */
struct guard {
    unsigned long mask;
    int error;
    int cancel;
};
struct guard shim_guard(void);
void shim_unguard(const struct guard *guard);

/*
 * Whether the shim does anything at all (PORTUS is not off). The first call reads
 * the environment. Never allocates.
 */
bool shim_on(void);

/* The same for who is only asked about what others save. */
bool shim_set_up(void);

/* Whether that is decided: not while a thread is at it. */
bool shim_known(void);

/* portus-agent: where the user says, beside the shim, or where it is installed. */
const char *shim_agent(void);

/*
 * Whether this is the process that the tables belong to. A child of vfork runs on
 * its parent's memory and must not touch them.
 */
bool shim_own(void);

/*
 * The writer, connecting to or starting the agent: shim_done must follow. NULL with a
 * sentence in *why.
 */
struct portus_writer *shim_writer(const char **why);

/*
 * Around a use of shim.writer for no engaged file (those keep it open): it is not closed
 * meanwhile. False: there is none, and shim_done must not follow.
 */
bool shim_use(void);
void shim_done(void);

/* The same from when a file still is engaged. */
void shim_keep(void);

/* The agent's control segment if this process knows one, else NULL. Does not connect. */
static inline struct portus_control *shim_control(void)
{
    return atomic_load_explicit(&shim.control, memory_order_acquire);
}

/* Whether the job has live files, as far as this process knows. */
static inline bool shim_live(void)
{
    struct portus_control *control = shim_control();

    return __builtin_expect(control != NULL && atomic_load(&control->live) != 0, 0);
}

/* Whether publishing calls wait for nothing. */
static inline bool shim_unordered(void)
{
    return shim.env.order == PORTUS_ORDER_RELAXED && shim.env.store[0] == '\0';
}

/*
 * Before a process that may have no part in the job's saves asks for a file of theirs: finds the
 * job's agent where there is one. Costs little where there is none. Leaves errno alone.
 */
void shim_look(void);
void shim_look_end(void); /* closes what it found, with the lock */

/*
 * Waits for all that was captured by this job: before a publishing call, named for the
 * timeline (NULL: by the caller). 0 or -errno.
 */
int shim_barrier_of(const char *call);
#define shim_barrier() shim_barrier_of(__func__)

/*
 * The same for a call that only changes what is at path, or at a descriptor (path ""): what waits
 * for a shared file system that does not answer is not waited for elsewhere.
 */
int shim_barrier_at(const char *call, int at, const char *path);

/* The same for a caller that cannot return an error: a later call does, or the end. */
void shim_barrier_untold_at(const char *call, int at, const char *path);
#define shim_barrier_untold() shim_barrier_untold_at(__func__, -1, NULL)

/* The error, negative, of a file of a writer that was closed since, as its agent was gone. Once. */
int shim_untold(void);

/* For the timeline: a call of the program that began then, and waited; began 0: not traced. */
void shim_trace_wait(const char *call, uint64_t began);

/* After it, before a name is deleted: no copy of ours may keep the file alive (on NFS, as .nfs). */
void shim_clear(void);

/* After path has got its name: the store, where there is one, keeps it by that. */
void shim_renamed(int at, const char *path);

/*
 * After a call that opens path failed: whether it only waited for a lease, and a handler of a
 * signal's cut that short. No regular file's open fails so without the shim: it is made again.
 */
bool shim_interrupted(int at, const char *path);
#define INTERRUPTED(failed, at, path)                                                              \
    (__builtin_expect(failed, 0) && errno == EINTR && shim_interrupted(at, path))

/*
 * Before path is executed: a file that somebody of this job has open for writing,
 * which includes us while it is live, could not be (ETXTBSY).
 */
void shim_wait_executable(int at, const char *path, int flags);

/*
 * Releases all files of this process and gives up all of our descriptors, as the program
 * wants the number of one: it cannot be moved, for another thread may be using it. The next
 * file that engages connects again. False: other threads kept them in use.
 */
bool shim_give_up(void);

/*
 * Releases all files of this process that are engaged and waits for them. 0, or a negative
 * errno of one that is incomplete, of which no call has told.
 */
int shim_release_all(void);

/* The same, and memory that is promised is filled: the kernel may use both after the call. */
int shim_release_queued(void);

/* The same for those that the program still has open: a child is about to get them. */
void shim_release_open(void);

/* The same, and none that is open now is captured any more: the child may write to them. */
void shim_share_open(void);

/*
 * The same at the end of the program, and captures nothing from then on. The exit status:
 * a program that loses bytes and cannot be told any more does not end with 0.
 */
int shim_end(int status);

/* watcher.c: starts the watcher's thread if it does not run. */
void shim_watch(void);

#endif
