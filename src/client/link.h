/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h -- a connection to this user's agent
 *
 * Finds the agent by its name in the abstract socket namespace, checks that it
 * runs as this user, starts one if wanted, and maps what it shares.
 *
 * Not here: what is written into the ring (writer.h) and what to do when the
 * agent has died (takeover.c).
 */
#ifndef PORTUS_LINK_H
#define PORTUS_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "portus/proto.h"
#include "portus/ring.h"

struct portus_link {
    int socket;                     /* to the agent; hangs up when keeper and worker are gone */
    int doorbell;                   /* eventfd that wakes the worker */
    int keeper;                     /* pidfd of the keeper */
    int memory;                     /* the ring's memfd; -1 for a looker */
    struct portus_control *control; /* mapped */
    uint32_t session;               /* number of ours; UINT32_MAX for a looker */
    bool first;                     /* the agent's first client */
    bool other_store;               /* and what is captured is not kept where it was wanted */
    uint8_t *ring;                  /* mapped whole; NULL for a looker */
    uint64_t ring_map;              /* bytes mapped at ring */
};

/* What to connect as. */
struct portus_link_options {
    enum portus_role role;
    const char *job;    /* PORTUS_JOB, or "" : the cgroup */
    uint64_t ring_size; /* largest ring, bytes; 0: the agent's choice */
    const char *agent;  /* path of portus-agent, to start one if there is none; NULL: do not */
    const char *store;  /* PORTUS_STORE, or "" */
    bool ends_stopped;  /* kill an agent that does not answer because it is stopped */
};

/*
 * Connects. Returns 0 and fills *link, or a negative errno: -ECONNREFUSED there
 * is no agent (and none was to be started), -EPERM the name belongs to another
 * user, -EPROTO an agent of another version, anything else as the kernel said;
 * when *why is not NULL it is set to a sentence. Waits 4 s at most. All
 * descriptors are close-on-exec and as in descriptor.h; -EMFILE where the limit
 * does not allow that.
 */
int portus_link_open(struct portus_link *link, const struct portus_link_options *options,
                     const char **why);

/*
 * Closes, and unmaps the ring. Other threads must not use the link any more. The control
 * segment stays mapped: they may just be looking at it, and agents do not die often.
 */
void portus_link_close(struct portus_link *link);

/* Whether keeper and worker are gone: no write of theirs can be under way any more. */
bool portus_link_dead(const struct portus_link *link);

/* Whether the keeper is gone: the worker goes with it. */
bool portus_link_leaving(const struct portus_link *link);

/* Wakes the worker if it sleeps: call it after making something ready for it. */
void portus_link_wake(const struct portus_link *link);

/* Makes the worker turn its loop once, whatever it does. */
void portus_link_ring(const struct portus_link *link);

/* How long somebody has waited for a sign of life; zeroes to begin with. */
struct portus_patience {
    uint64_t since;
    uint32_t beat;
};

/*
 * To be called now and then by whoever waits for the agent: wakes it, and kills one
 * that is stopped or does not move, so that its clients take over.
 */
void portus_link_prod(const struct portus_link *link, struct portus_patience *patience);

/* The same before it has let us in. Whether it was stopped, and is killed. */
bool portus_link_end_stopped(const struct portus_link *link);

/*
 * The state letter of a process (proc(5) stat), 0 if there is no such process or no /proc,
 * '?' if that cannot be seen now.
 */
char portus_process_state(uint32_t pid);

/*
 * Sends one message, with descriptor fd beside it unless it is -1. Never blocks.
 * Returns 0 or a negative errno.
 */
int portus_link_send(const struct portus_link *link, enum portus_op op, uint32_t value,
                     uint64_t size, int fd);

#endif
