/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma.h -- what the parts of the rdma lane share
 *
 *   rdma.c        the lane's life: its links, one after the other, and its messages
 *   rdma_offer.c  a client's end: memory that is open to the store, and pushes that come
 *   rdma_fetch.c  a store's end: READs of it, and pushes
 *   rdma_buffers.c  a store's memory for what is under way
 *   rdma_files.c  files, which are no memory: both ends
 */
#ifndef PORTUS_TRANSPORT_RDMA_H
#define PORTUS_TRANSPORT_RDMA_H

#include <string.h>

#include "transport/transport.h"
#include "transport/verbs.h"

#define RDMA_READS 256  /* of a store's lane, waiting or under way */
#define RDMA_BUFFERS 64 /* of a store, for all lanes: reads under way, and as many pushes */
#define RDMA_STEPS 2048 /* of a lane */

/* A client's: a ring that is offered, or is being left. */
struct rdma_ring {
    struct rdma_ring *next;
    uint32_t id;
    uint64_t leaving; /* since when, ns; 0: it is not */
    uint8_t *base;    /* its own mapping */
    size_t mapped;
    int fd; /* of the same memory */
    struct rdma_opened {
        uint64_t offset, length;
        struct verbs_source source;
    } * opened;
    unsigned count, room;
};

/* A store's: what it has been told of a client's memory. */
struct rdma_step {
    uint32_t ring;
    uint64_t offset, length;
    struct verbs_source source;
};

/* A store's: a read, or a push, that the link has. */
struct rdma_flight {
    struct transport_read *read; /* NULL: a push, or of a file */
    struct rdma_piece *piece;
    uint32_t ring;
    unsigned buffer, parts; /* RDMA_BUFFERS: none */
};

/* A store's: a read of a file that its client has been asked for. */
struct rdma_piece {
    struct transport_read *read;
    bool answered, through;
    int error;
    uint32_t place; /* of the client's */
    unsigned buffer;
    struct verbs_source source;
};

struct lane {
    struct wire *wire;
    const struct transport_client *client; /* NULL: a store's */
    struct lane *other;                    /* messages that are none of RDMA's */
    uint32_t owner;                        /* a store's: whose it is */
    struct verbs_link *link;               /* NULL: none at the moment */
    uint8_t secret[VERBS_SECRET];
    unsigned number; /* of the link, from 1 on */
    unsigned vain;   /* links in a row that were of no use */
    bool ready, used;
    uint64_t bytes_read, bytes_straight, bytes_pushed; /* a store's */
    int failed;                                        /* the session is over */

    struct rdma_ring *rings;
    uint8_t *slots;
    struct verbs_source slots_at;
    bool come[PORTUS_RDMA_PUSHES];
    uint32_t taken, told; /* pushes */
    struct transport_source *files;
    uint8_t *places; /* pieces of them */
    struct verbs_source places_at;
    bool places_open, place_used[PORTUS_RDMA_PIECES];

    struct rdma_step *steps;
    unsigned step_count;
    struct transport_queue reads; /* waiting */
    unsigned waiting;
    bool asked; /* a step for the first of them */
    struct rdma_flight flight[RDMA_READS];
    uint64_t out, in; /* flights begun and ended */
    uint32_t leaving[64];
    unsigned leavings;                 /* rings that are left when their flights have ended */
    struct transport_queue file_reads; /* waiting */
    struct rdma_piece piece[PORTUS_RDMA_PIECES];
    uint64_t pieces, pieces_answered, pieces_begun, pieces_ended;
    struct verbs_source slots_far;
    bool slots_asked, slots_known;
    uint32_t pushed, credit; /* pushes begun; taken by the client */
};

/* A range as it is told by a message, and told. */
_Static_assert(sizeof(((struct portus_rdma_step *)0)->key) ==
                   sizeof(((struct verbs_source *)0)->key),
               "keys");
static inline struct portus_rdma_step rdma_step_of(uint64_t offset, uint64_t length,
                                                   const struct verbs_source *source)
{
    struct portus_rdma_step step = {.offset = offset, .length = length, .address = source->address};

    memcpy(step.key, source->key, sizeof(step.key));
    return step;
}

static inline struct verbs_source rdma_source_of(const struct portus_rdma_step *step)
{
    struct verbs_source source = {.address = step->address};

    memcpy(source.key, step->key, sizeof(source.key));
    return source;
}

/* A process's. */
extern const struct verbs_ops *rdma_ops;

void rdma_fail(struct lane *lane, int error, const char *why);
int rdma_say(struct lane *lane, enum portus_op op, uint32_t value, int error);

/* rdma_offer.c */
int rdma_offer(struct lane *lane, struct transport_source *source);
void rdma_unoffer(struct lane *lane, struct transport_source *source);
int rdma_hear_want(struct lane *lane, const struct portus_message *message);
void rdma_hear_left(struct lane *lane, uint32_t ring);
void rdma_offer_turn(struct lane *lane);
void rdma_offer_reset(struct lane *lane); /* its link is gone */
void rdma_offer_end(struct lane *lane);

/* rdma_fetch.c */
int rdma_fetch(struct lane *lane, struct transport_read *read);
int rdma_hear_step(struct lane *lane, const struct portus_message *message, const void *bytes,
                   size_t length);
int rdma_hear_gone(struct lane *lane, uint32_t ring);
void rdma_fetch_turn(struct lane *lane);
int rdma_fetch_push(struct lane *lane, const struct portus_message *message, const void *bytes,
                    size_t length);
int rdma_fetch_reset(struct lane *lane); /* -ECONNRESET: what was pushed is nobody knows where */
void rdma_fetch_end(struct lane *lane);

/* rdma_buffers.c. begin: once, before anything is listened for. take: a number, or RDMA_BUFFERS: it
 * has to wait. */
enum rdma_use { RDMA_FOR_READ, RDMA_FOR_PUSH };
int rdma_buffers_begin(struct verbs *verbs, char *why);
unsigned rdma_buffer_take(const struct lane *lane, enum rdma_use use);
void rdma_buffer_give(enum rdma_use use, unsigned buffer);
uint8_t *rdma_buffer(enum rdma_use use, unsigned buffer);
int rdma_want(struct lane *lane, int64_t what, uint32_t id, uint64_t offset, uint32_t length);

/* rdma_files.c: a client's end */
int rdma_file_want(struct lane *lane, const struct portus_message *message);
int rdma_file_free(struct lane *lane, uint32_t place);
void rdma_file_offer_reset(struct lane *lane);
/* and a store's */
int rdma_file_fetch(struct lane *lane, struct transport_read *read);
int rdma_file_step(struct lane *lane, const struct portus_message *message,
                   const struct portus_rdma_step *step);
void rdma_file_turn(struct lane *lane);
void rdma_file_fetch_reset(struct lane *lane);

#endif
