/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * far.h -- clients on other machines
 *
 * A connection is somebody's only when both sides have proven that they know its key
 * (transport/wire.h). Then it is a peer like others: its owner is made of the key's name,
 * in place of a uid. What a local peer passes as a descriptor it describes, and what of it
 * the store wants to read it asks for.
 */
#ifndef PORTUS_STORE_FAR_H
#define PORTUS_STORE_FAR_H

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "portus/proto.h"
#include "store/pool.h"
#include "transport/transport.h"

struct store;
struct far;

#define FAR_KNOCKING 128 /* connections that have not proven anything yet */
#define FAR_LISTENERS 4

/* ---- far.c: listening ---- */

/* At tcp://ADDRESS:PORT, for those who have one of the keys. 0 or a negative errno, logged. */
int far_listen(struct store *store, const char *text);
unsigned far_watch(struct pollfd *events, unsigned room);
/* Accepts, lets prove, lets in, turns out who has not in time. */
void far_listen_turn(struct store *store);
void far_listen_end(void);
/* The pool is there: it may be read into, if its memory is such. */
void far_keep(const struct pool *pool);
/* The keys have been read anew: who has none any more is hung up. */
void far_keys_changed(struct store *store, const struct keys *before);

/* ---- far.c: a connection ---- */

void far_close(struct far *far);
unsigned far_events(struct far *far, struct pollfd *events, unsigned room, bool *ready);
/* One step of what waits to be sent or read. A negative errno: it is over. */
int far_step(struct far *far);
/* The next message that is not about reading; *bytes until the next call. -EAGAIN: none. */
int far_receive(struct far *far, struct portus_message *message, const void **bytes,
                size_t *length);
/* Whether what it reads may come straight into the pool. */
bool far_lands(const struct far *far);
/* Never fails here: the next far_step does. */
void far_send(struct far *far, const struct portus_message *message);
/* A STORE_BYTES. -EAGAIN: not now. */
int far_push(struct far *far, const struct portus_message *message, const void *bytes);
const char *far_who(const struct far *far); /* for people */

/* ---- reach.c: what can be read of a client's ---- */

#define FAR_READS 16 /* of one source, under way */

/* In the order of the reads. bytes NULL: error says why. landing: where they were to come, if that
 * was said; from now on the owner's. */
typedef void (*far_got)(void *owner, uint64_t cookie, uint64_t offset, const void *bytes,
                        uint32_t length, int error, struct pool_landing *landing);

struct far_source {
    struct far *far; /* NULL: the connection is gone */
    enum transport_what what;
    uint32_t id;
    unsigned under_way;
    bool calls; /* got is being called */
    struct far_read {
        struct transport_read read;
        bool busy;
        uint64_t cookie;
        struct pool_landing *landing;
    } read[FAR_READS];
    far_got got;
    void *owner; /* NULL: nobody wants it any more */
    struct far_source *next;
};

int far_source_open(struct far_source **out, struct far *far, enum transport_what what, uint32_t id,
                    far_got got, void *owner);
/* -EAGAIN: as many as can be are under way. Takes landing (NULL: none), if it returns 0. */
int far_source_read(struct far_source *source, uint64_t offset, uint32_t length, uint64_t cookie,
                    struct pool_landing *landing);
bool far_source_full(const struct far_source *source);
void far_source_close(struct far_source *source); /* got is not called any more */
/* The connection is about to go. */
void far_sources_lose(struct far_source *sources);

/* What a file is, as its client says; what it says concerns that client's versions alone. */
struct far_name {
    struct pool_key key;
    struct stat status;
    char path[PATH_MAX + 1];
};

/* Of a message's bytes: *rest is what follows. -EPROTO. */
int far_name_read(struct far_name *name, const struct far *far, const void *bytes, size_t length,
                  const void **rest, size_t *rest_bytes);

/* A file that is to be kept. */
struct far_file {
    struct far_source *source;
    struct far_name name;
    uint32_t id;
    bool asked, told; /* whether its lease still is held */
    int error;        /* what it said */
    struct far_file *next;
};

int far_file_open(struct far_file **out, struct far *far, uint32_t id, const struct far_name *name);
void far_file_close(struct far_file *file);
bool far_file_gone(const struct far_file *file);
/* 0: it is unchanged, and name is what it is now; -EAGAIN: it has been asked; -ESTALE. */
int far_file_check(struct far_file *file);
/* What a client answers to that. */
int far_file_hear(struct far *far, const struct portus_message *message, const void *bytes,
                  size_t length);

/* What far.c and reach.c know of a connection. */
struct far {
    struct store *store;
    struct wire *wire;
    struct lane *lane;
    const struct transport_kind *kind;
    uint8_t machine[16];
    int failed;
    uint64_t reads_since; /* since when reads are under way without an answer, ns; 0: none are */
    unsigned reads;
    struct far_source *sources;
    struct far_file *files;
};

/* caller.c: one message of a peer on another machine. 0 or a negative errno: hang up; -EAGAIN:
 * there is none. */
int store_hear_far(struct store *store, unsigned place);

#endif
