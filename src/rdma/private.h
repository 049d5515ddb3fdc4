/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * private.h -- what the parts of the plug-in share
 */
#ifndef PORTUS_RDMA_PRIVATE_H
#define PORTUS_RDMA_PRIVATE_H

#include <rdma/rdma_cma.h>

#include "transport/verbs.h"

#define DEPTH_MOST 64 /* of a lane; few devices can more than 16 */
#define JOBS 1024     /* of a link, that are not through */
#define PUSHES 64     /* receives that wait for the number of a push */
#define MEMORIES 4    /* kept ranges of a process */
#define EXPOSED 1024  /* ranges of a link */
#define RESOLVE_MS 2000

/* A range of this process that bytes may come into. */
struct memory {
    char *base;
    size_t length;
};

/* A device that the other end has come by, with what is registered with it. */
struct device {
    struct device *next;
    struct ibv_context *verbs; /* librdmacm's, which never closes it */
    struct ibv_pd *pd;
    struct ibv_mr *kept[MEMORIES];
};

/* A device of a link that dials: it has a domain of its own, as keys are those of one link. */
struct rail {
    struct ibv_context *verbs;
    struct ibv_pd *pd;
};

/* One queue pair. */
struct lane {
    struct verbs_link *link;
    struct rdma_cm_id *id; /* NULL: none */
    struct device *device; /* that it came by; NULL: of a link that dials */
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    unsigned rail;
    unsigned depth; /* of READs and WRITEs under way */
    bool up;
    /* Under way, in order: which job, how many bytes. */
    struct {
        uint32_t job;
        uint32_t length;
    } flight[DEPTH_MOST];
    uint64_t posted, through;
    uint32_t bytes;       /* under way */
    uint32_t unsignalled; /* bytes */
};

struct job {
    struct verbs_source at; /* of the other end */
    char *here;
    uint32_t length, given, left; /* bytes: all, handed to lanes, not through */
    uint32_t number;              /* of a push */
    uint32_t memory;              /* which kept range */
    uint64_t cookie;
    uint32_t lane; /* a push goes by one: its number must come last */
    bool push;
};

struct exposed {
    struct ibv_mr *mr[VERBS_RAILS];
};

struct verbs_link {
    struct verbs_link *next;
    struct verbs *verbs;
    enum verbs_state state;
    bool dials;
    int error;
    char why[VERBS_WHY];
    uint8_t secret[VERBS_SECRET];
    uint64_t deadline; /* ns; what is under way must have moved by then */
    unsigned lanes, ups;
    struct lane lane[VERBS_LANES];
    struct rail rail[VERBS_RAILS];
    unsigned rails;
    struct sockaddr_storage peer, from[VERBS_RAILS];
    unsigned froms; /* local addresses of the devices that were asked for */
    struct exposed exposed[EXPOSED];
    unsigned exposes;
    uint32_t pushed[PUSHES]; /* numbers that have come */
    uint64_t pushes_in, pushes_out;
    /* Jobs: handed out up to `given`, told up to `told`. */
    struct job job[JOBS];
    uint64_t jobs, given, told;
    unsigned next_lane;
};

struct verbs {
    struct verbs_options options;
    int epoll;
    struct rdma_event_channel *events;
    struct rdma_cm_id *listener;
    struct device *devices;
    struct memory memory[MEMORIES];
    unsigned memories;
    struct verbs_link *links;
};

/* main.c */
uint64_t rdma_now(void); /* ns */

/* device.c: devices, as sysfs tells of them */
bool rdma_address_of(const char *device, int family, struct sockaddr_storage *address);
bool rdma_describe(unsigned index, struct verbs_device *device);
/* Which of the devices beside `by`, with an address in the same net, is nearest to this
 * processor; false: `by` is. */
bool rdma_nearer(const struct sockaddr *by, struct sockaddr_storage *address);

/* lane.c: a queue pair's things. 0 or a negative errno; why is the link's. */
int rdma_lane_make(struct lane *lane, struct ibv_pd *pd, unsigned depth);
void rdma_lane_unmake(struct lane *lane); /* no access to memory by it any more */
bool rdma_lane_poll(struct lane *lane);   /* whether there was any completion */

/* memory.c: registered memory */
int rdma_keep(struct verbs *verbs, void *memory, size_t length, char *why);
struct device *rdma_device_of(struct verbs *verbs, struct ibv_context *context, char *why);
void rdma_device_end(struct device *device);
int rdma_kept(const struct verbs *verbs, const void *from, size_t length); /* which, or -1 */
int rdma_expose(struct verbs_link *link, void *memory, size_t length, struct verbs_source *out,
                char *why);
int rdma_lend(struct verbs_link *link, void *memory, size_t length, struct verbs_source *out,
              char *why);
void rdma_withdraw(struct verbs_link *link, const struct verbs_source *source);
void rdma_withdraw_all(struct verbs_link *link);

/* link.c: sessions */
void rdma_break(struct verbs_link *link, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool rdma_link_turn(struct verbs_link *link); /* whether anything has happened */
void rdma_event(struct verbs *verbs, struct rdma_cm_event *event); /* acknowledges it */

/* work.c: READs and WRITEs under way */
int rdma_read(struct verbs_link *link, const struct verbs_source *from, void *to, uint32_t length,
              uint64_t cookie);
int rdma_push(struct verbs_link *link, const struct verbs_source *to, const void *from,
              uint32_t length, uint32_t number, uint64_t cookie);
bool rdma_done(struct verbs_link *link, uint64_t *cookie);
bool rdma_pushed(struct verbs_link *link, uint32_t *number);
int rdma_post_receives(struct lane *lane, unsigned count);
void rdma_work_through(struct lane *lane, const struct ibv_wc *wc);
void rdma_work_give(struct verbs_link *link); /* to lanes, as much as they take */
bool rdma_work_waits(const struct verbs_link *link);

#endif
