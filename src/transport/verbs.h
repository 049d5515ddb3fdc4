/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h -- bytes by RDMA, between an agent and a store on another machine
 *
 * All that speaks verbs is in a plug-in, portus_rdma.so, which agent, portusd and portusctl load
 * when rdma:// is asked for (verbs_load): so none of them needs rdma-core where there is no RDMA,
 * the linker finds the versions of its symbols, and its inline functions are what they should be,
 * which a table of dlsym'd pointers gives neither of. The shim never loads it.
 *
 * A link is one session between two ends, made of some queue pairs (lanes):
 *
 *   the end that dials (agent, portusctl)       the end that is dialled (portusd)
 *   dial(address, secret)                       listen(address), then expect(secret)
 *   expose(memory): address and keys            read(address, keys): one-sided READs
 *   lend(memory)                                push(address, keys): WRITEs, the last with a number
 *
 * The secret is what the two have agreed on by their control connection, and the only thing by
 * which a queue pair is accepted. Memory of portusd is never exposed. Keys are those of one link.
 *
 * Nothing here blocks or logs; what went wrong is in a link's `why`. Not thread-safe. Whatever
 * happens to a link, once it is broken no byte of its memory is read or written any more: its queue
 * pairs are destroyed before it says so.
 */
#ifndef PORTUS_VERBS_H
#define PORTUS_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define VERBS_VERSION 3u
#define VERBS_WHY 256
#define VERBS_SECRET 32
#define VERBS_LANES 8 /* of a link at most */
#define VERBS_RAILS 4 /* devices that a link goes over at most */

struct verbs;      /* what a process has of it */
struct verbs_link; /* one session */

struct verbs_options {
    char devices[128];  /* names of those to be used, by commas; "": the one that the route says */
    unsigned lanes;     /* 0: as is best */
    unsigned depth;     /* READs of a lane under way at most; 0: as the device can */
    uint32_t piece;     /* bytes of one READ or WRITE; 0: as is best */
    unsigned answer_ms; /* without an answer for so long a link is broken; 0: ten seconds */
};

enum verbs_state { VERBS_BEGINS, VERBS_READY, VERBS_BROKEN };

/* Memory of a link's other end. */
struct verbs_source {
    uint64_t address;
    uint32_t key[VERBS_RAILS];
};

struct verbs_device {
    char name[64], link_layer[16], gid[48], firmware[64];
    int port, gid_index, numa; /* numa -1: not known */
    bool active;
    unsigned mtu, depth, dialled_depth; /* READs that it sends, that it answers */
    double gigabits;                    /* a second, of the port */
};

struct verbs_ops {
    uint32_t version;
    /* 0 or a negative errno; then why says what to do. Of a process: once. */
    int (*begin)(struct verbs **out, const struct verbs_options *options, char *why);
    void (*end)(struct verbs *verbs);
    /* Readable when turn has something to do. turn never waits. It looks at all links, whoever's
     * turn it is: true: something has happened, perhaps to a link that was asked before it had. */
    int (*descriptor)(const struct verbs *verbs);
    bool (*turn)(struct verbs *verbs);

    /* Memory that bytes are read into and pushed from. -EOPNOTSUPP: this kind cannot be
     * (a mapping of a file with DAX). Registered with every device that comes. */
    int (*keep)(struct verbs *verbs, void *memory, size_t length, char *why);
    int (*listen)(struct verbs *verbs, const struct sockaddr *address, socklen_t length, char *why);
    int (*expect)(struct verbs *verbs, const uint8_t *secret, struct verbs_link **out);
    int (*dial)(struct verbs *verbs, const struct sockaddr *address, socklen_t length,
                const uint8_t *secret, struct verbs_link **out, char *why);
    void (*close)(struct verbs_link *link); /* its memory is its owner's again */
    void (*break_off)(struct verbs_link *link, int error, const char *why);

    enum verbs_state (*state)(const struct verbs_link *link);
    int (*error)(const struct verbs_link *link);
    const char *(*why)(const struct verbs_link *link);

    /* The end that dials: memory that the other one may read (expose) or write (lend). */
    int (*expose)(struct verbs_link *link, void *memory, size_t length, struct verbs_source *out,
                  char *why);
    int (*lend)(struct verbs_link *link, void *memory, size_t length, struct verbs_source *out,
                char *why);
    void (*withdraw)(struct verbs_link *link, const struct verbs_source *source);
    bool (*pushed)(struct verbs_link *link, uint32_t *number); /* the next that has come whole */

    /* The other end. What is asked for goes out by give, or in the next turn. -EAGAIN: as much as
     * fits is under way. cookie comes back by done. */
    int (*read)(struct verbs_link *link, const struct verbs_source *from, void *to, uint32_t length,
                uint64_t cookie);
    int (*push)(struct verbs_link *link, const struct verbs_source *to, const void *from,
                uint32_t length, uint32_t number, uint64_t cookie);
    bool (*done)(struct verbs_link *link, uint64_t *cookie);
    void (*give)(struct verbs *verbs); /* before descriptor is waited for */

    /* portusctl doctor: the index-th device. */
    bool (*describe)(unsigned index, struct verbs_device *device);
};

/* The plug-in beside this program, or NULL and why. */
const struct verbs_ops *verbs_load(char *why);

#endif
