/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h -- what the parts of portusd share
 */
#ifndef PORTUS_STORE_STATE_H
#define PORTUS_STORE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "common/listing.h"
#include "portus/proto.h"
#include "store/config.h"
#include "store/far.h"
#include "store/import.h"
#include "store/moved.h"
#include "store/pool.h"
#include "store/view.h"

#define STORE_PEERS 1024
#define STORE_QUEUE 4096     /* files that wait to be copied */
#define STORE_QUEUE_USER 512 /* of one user, where the store is shared */

struct store_peer {
    int socket; /* -1: none */
    uint32_t pid, uid;
    uint64_t job;
    bool welcomed;
    struct far *far;       /* it is on another machine */
    struct view *view;     /* its part of the pool, if it has asked for that */
    struct moved *moved;   /* files of its that have other names by now */
    uint32_t moved_id;     /* to be answered then */
    struct intake *intake; /* a version that it sends */
    uint64_t read_offset;
    uint32_t read_left, read_id; /* what it wants of it, and has not got yet */
};

/* A file that somebody wants to be kept. */
struct store_file {
    int fd;               /* -1: not wanted any more, or on another machine */
    struct far_file *far; /* there; NULL: here, or not wanted any more */
    uint32_t peer;        /* place */
    uint32_t serial;      /* of that place's use: the peer may be gone */
    uint32_t id;          /* the peer's number for it */
    uint32_t uid;
    int listed;         /* a listing of its directory, or -1 */
    bool last;          /* of its directory, see PORTUS_STORE_LAST */
    bool pulled;        /* there is a draft, see PORTUS_STORE_PULLED */
    bool kept;          /* it is committed, see PORTUS_STORE_KEPT */
    uint64_t directory; /* inode */
    uint64_t job;
};

struct store {
    struct pool *pool;
    unsigned keep;
    uint64_t scrub; /* bytes a second when nothing else is to be done; 0: not by itself */
    uint32_t self;  /* uid */
    bool shared;    /* by several users: each has its share, and no path of theirs is looked at */
    bool strangers; /* the socket is for all users of this machine */
    bool ending;    /* takes nothing new */
    struct config config;
    struct keys keys; /* of users on other machines */
    int listener;     /* -1: only far.c's */
    struct store_peer peer[STORE_PEERS];
    uint32_t serial[STORE_PEERS];
    struct store_file queue[STORE_QUEUE]; /* a ring */
    uint64_t queued, taken;               /* files ever put in, ever taken out */
};

/* session.c: one turn of listening, for that long. 0, or a negative errno: nobody can be heard */
int store_listen(struct store *store, int signals, int milliseconds);
/* From now on descriptors may be anybody's. */
void store_listen_to_strangers(void);
unsigned store_peers(const struct store *store);
/* No descriptor is to be had, say: for a moment nobody is let in, as who knocks stays there and
 * would be heard without an end. And whether that is so. */
void store_deafen(int error);
bool store_deaf(void);
/* A descriptor of that user does not answer: its connections end. */
void store_shun(struct store *store, uint32_t uid);
/* Whether one more file of that peer can wait; 0 or a negative errno. And has it wait. */
int store_queue_may(const struct store *store, unsigned place);
void store_queue(struct store *store, unsigned place, const struct portus_message *message, int fd,
                 struct far_file *far, int listed);
/* One message that is of the same kind from all peers. 0 or a negative errno: hang up; -EAGAIN:
 * nothing more is heard before that is answered. */
int store_hear_plain(struct store *store, unsigned place, const struct portus_message *message);
/* Answers whoever asked for it, if it is still there. */
void store_answer(struct store *store, uint32_t peer, uint32_t serial, uint32_t id, int error,
                  uint64_t number);
/* The same with any message that has no descriptors. */
void store_tell(struct store *store, uint32_t peer, uint32_t serial, enum portus_op op,
                uint32_t value, int error, uint64_t size);
/* What its job is called in the pool; valid until the next call. */
const char *store_job(uint64_t job);
/* take.c: what a version of a file says of it; path must live as long, job until the next call. */
struct pool_attributes store_attributes(const struct stat *status, const char *path, uint64_t job);

/* share.c: what a user's files may take; and which versions there are for what it asks. */
struct pool_share store_share(const struct store *store, uint32_t uid);
struct pool_share store_sight(const struct store *store, uint32_t uid);
/* Whether one more connection of that user is too much. */
bool store_crowded(const struct store *store, uint32_t uid);
/* Whether uid stands for one user: in a user namespace all that are not mapped are one number. */
bool store_knows(uint32_t uid);
/* Whether there may be a line about what strangers do: they are not to fill the log. */
bool store_may_tell(void);

/* take.c: copies a piece of the file at the head of the queue; whether there is more to do */
bool store_take(struct store *store);
/* Whether some are under way that wait for another machine. */
bool store_waits(const struct store *store);
/* pool_write into a draft of that path, of a user's job; what room was made for it before, another
 * draft may have taken since: then more is made. */
int store_write(struct store *store, uint32_t uid, const char *path, uint64_t job,
                struct pool_draft *draft, uint64_t offset, const void *data, size_t length);
/* Lets go of a file that somebody wants to write. */
void store_cancel(struct store *store, uint32_t peer, uint32_t id);
/* Forgets all that a user has handed over and that is not committed. */
void store_forget(struct store *store, uint32_t uid);
/* How many files of a user are in the queue. */
unsigned store_waiting(const struct store *store, uint32_t uid);

/* origin.c: of a file that is to be kept, wherever it is. As hand.h; -ESTALE: its client is gone.
 */
int origin_stat(const struct store_file *file, struct stat *status);
int origin_key(const struct store_file *file, struct pool_key *key);
int origin_path(const struct store *store, const struct store_file *file, char *path, size_t size);
bool origin_held(const struct store_file *file); /* as far as is known here */
int origin_close(struct store_file *file);
static inline bool origin_is(const struct store_file *file)
{
    return file->fd >= 0 || file->far != NULL;
}

/* key.c: what the file behind fd is, and where. 0 or a negative errno. */
int store_key(int fd, struct pool_key *key);
bool store_same_file(const struct pool_key *one, const struct pool_key *other); /* of any owner */
struct pool_key store_key_of(const struct listing_entry *entry, uint32_t owner);
int store_path(const struct store *store, int fd, char *path, size_t size);

/* evict.c: makes bytes free, of the share's versions, for a file of that path and job. 0 or a
 * negative errno; -ENOSPC. */
int store_room(struct store *store, const struct pool_share *share, const char *path,
               const char *job, uint64_t bytes);

/* whole.c: whether all files beside path are in the pool as they are on the disk; listed: of a
 * shared store, a descriptor of them as listing.h has it, or -1. */
bool store_whole(const struct store *store, const struct pool_share *share, const char *path,
                 int listed);

/* tend.c: one turn of scrubbing, if it is time; returns after how many ms it wants another.
 * tending: somebody has asked for a pass that is not over. hear: STORE_SCRUB, _SCRUBBED. */
int store_tend(struct store *store);
bool store_tending(void);
void store_tend_end(void);
int store_tend_hear(struct store *store, unsigned op, uint64_t size, unsigned flags,
                    uint64_t *answer);

/* follow.c: the file or directory behind fd was renamed. */
void store_follow(struct store *store, int fd);

#endif
