/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c -- sessions: how their queue pairs find each other, and how they end
 *
 * Each lane is one connection of librdmacm; with its request comes the secret of the session, and
 * without that of one that is waited for a request is refused. CM events are looked at in the
 * same turn as completions: a peer that has gone shows there at once, in a completion after a
 * minute, if at all.
 *
 * The end that reads and writes (portusd) sent last, so the end that dialled hangs up first, when
 * it has been told that all is through; the other one answers by the same.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/private.h"

#define RETRIES 7
#define ACK_TIMEOUT 15 /* 4 us << 15: 134 ms before a packet is sent again */
#define HAIL_MAGIC 0x4c524450u

/* What comes with a request for a lane; 56 bytes are possible. */
struct hail {
    uint32_t magic;
    uint16_t version;
    uint8_t lane, lanes;
    uint8_t rail, pad[7];
    uint8_t secret[VERBS_SECRET];
};
_Static_assert(sizeof(struct hail) == 48, "hail");

void rdma_break(struct verbs_link *link, int error, const char *format, ...)
{
    va_list arguments;

    if (link->state == VERBS_BROKEN)
        return;
    va_start(arguments, format);
    vsnprintf(link->why, sizeof(link->why), format, arguments);
    va_end(arguments);
    link->state = VERBS_BROKEN;
    link->error = error;
    for (unsigned i = 0; i < VERBS_LANES; i++)
        rdma_lane_unmake(&link->lane[i]);
}

bool rdma_link_turn(struct verbs_link *link)
{
    bool any = false, broken = link->state == VERBS_BROKEN;

    for (unsigned i = 0; i < VERBS_LANES && link->state != VERBS_BROKEN; i++)
        any |= rdma_lane_poll(&link->lane[i]);
    rdma_work_give(link);
    if (link->state != VERBS_BROKEN && rdma_now() > link->deadline &&
        (link->state == VERBS_BEGINS || rdma_work_waits(link)))
        rdma_break(link, -ETIMEDOUT,
                   link->state == VERBS_BEGINS ? "the other end does not connect within %u ms"
                                               : "the other end has not answered for %u ms",
                   link->verbs->options.answer_ms);
    return any || broken != (link->state == VERBS_BROKEN);
}

/* ---- the end that dials ---- */

static void set_timeout(struct rdma_cm_id *id)
{
    uint8_t timeout = ACK_TIMEOUT;

    /* An old kernel has its own. */
    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
}

/* The link's domain on the lane's device. */
static int find_rail(struct lane *lane)
{
    struct verbs_link *link = lane->link;
    struct ibv_context *verbs = lane->id->verbs;
    struct rail *rail = link->rail;

    while (rail < link->rail + link->rails && rail->verbs != verbs)
        rail++;
    if (rail == link->rail + link->rails) {
        if (link->rails == VERBS_RAILS)
            return -EUSERS;
        rail->verbs = verbs;
        rail->pd = ibv_alloc_pd(verbs);
        if (rail->pd == NULL)
            return -errno;
        link->rails++;
    }
    lane->rail = (unsigned)(rail - link->rail);
    return 0;
}

static int connect_lane(struct lane *lane)
{
    const struct verbs_link *link = lane->link;
    struct hail hail = {.magic = HAIL_MAGIC,
                        .version = VERBS_VERSION,
                        .lane = (uint8_t)(lane - link->lane),
                        .lanes = (uint8_t)link->lanes,
                        .rail = (uint8_t)lane->rail};
    struct rdma_conn_param wanted = {
        .private_data = &hail,
        .private_data_len = sizeof(hail),
        .responder_resources = RDMA_MAX_RESP_RES,
        .initiator_depth = 1,
        .retry_count = RETRIES,
        .rnr_retry_count = RETRIES,
    };
    int error = rdma_lane_make(lane, link->rail[lane->rail].pd, 1);

    memcpy(hail.secret, link->secret, sizeof(hail.secret));
    if (error == 0)
        error = rdma_post_receives(lane, PUSHES);
    if (error == 0 && rdma_connect(lane->id, &wanted) != 0)
        error = -errno;
    return error;
}

/* ---- the end that is dialled ---- */

static bool same(const uint8_t *one, const uint8_t *other)
{
    uint8_t differs = 0;

    for (unsigned i = 0; i < VERBS_SECRET; i++)
        differs |= one[i] ^ other[i];
    return differs == 0;
}

/* The lane that a request is for; NULL: of no session that is waited for. */
static struct lane *requested(struct verbs *verbs, const struct hail *hail)
{
    if (hail->magic != HAIL_MAGIC || hail->version != VERBS_VERSION || hail->lanes == 0 ||
        hail->lanes > VERBS_LANES || hail->lane >= hail->lanes || hail->rail >= VERBS_RAILS)
        return NULL;
    for (struct verbs_link *link = verbs->links; link != NULL; link = link->next) {
        if (link->dials || link->state != VERBS_BEGINS || !same(link->secret, hail->secret))
            continue;
        if ((link->lanes != 0 && link->lanes != hail->lanes) || link->lane[hail->lane].id != NULL)
            return NULL;
        return &link->lane[hail->lane];
    }
    return NULL;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static void accept_lane(struct verbs *verbs, struct rdma_cm_id *id, const struct hail *hail,
                        unsigned depth)
{
    struct lane *lane = requested(verbs, hail);
    struct rdma_conn_param given = {.responder_resources = 1, .rnr_retry_count = RETRIES};
    struct ibv_device_attr attributes;
    struct verbs_link *link;
    int error;

    if (lane == NULL) {
        rdma_reject(id, NULL, 0);
        rdma_destroy_id(id);
        return;
    }
    link = lane->link;
    link->lanes = hail->lanes;
    lane->id = id;
    lane->rail = hail->rail;
    id->context = lane;
    lane->device = rdma_device_of(verbs, id->verbs, link->why);
    if (lane->device == NULL) {
        rdma_reject(id, NULL, 0);
        rdma_break(link, -ENOMEM, "%s", "the device by which it came cannot be used");
        return;
    }
    if (ibv_query_device(id->verbs, &attributes) != 0)
        attributes.max_qp_init_rd_atom = 1;
    depth = least(least(depth, (unsigned)attributes.max_qp_init_rd_atom), DEPTH_MOST);
    if (verbs->options.depth != 0)
        depth = least(depth, verbs->options.depth);
    depth = depth == 0 ? 1 : depth;
    given.initiator_depth = (uint8_t)depth;
    set_timeout(id);
    error = rdma_lane_make(lane, lane->device->pd, depth);
    if (error == 0 && rdma_accept(id, &given) != 0)
        error = -errno;
    if (error != 0)
        rdma_break(link, error, "a queue pair cannot be made: %s", strerror(-error));
}

/* ---- events ---- */

static void lane_event(struct lane *lane, enum rdma_cm_event_type type, int status)
{
    struct verbs_link *link = lane->link;
    int error = 0;

    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        set_timeout(lane->id);
        error = find_rail(lane);
        if (error == 0 && rdma_resolve_route(lane->id, RESOLVE_MS) != 0)
            error = -errno;
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        error = connect_lane(lane);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        lane->up = true;
        if (++link->ups == link->lanes)
            link->state = VERBS_READY;
        return;
    case RDMA_CM_EVENT_ADDR_ERROR:
        rdma_break(link, -EHOSTUNREACH, "no RDMA device has a way there");
        return;
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        rdma_break(link, -EHOSTUNREACH, "it does not answer by RDMA");
        return;
    case RDMA_CM_EVENT_REJECTED:
        rdma_break(link, -ECONNREFUSED, "it refuses the RDMA connection (%d)", status);
        return;
    case RDMA_CM_EVENT_DISCONNECTED:
        rdma_break(link, -ECONNRESET, "the other end has hung up");
        return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        rdma_break(link, -ENODEV, "the RDMA device is gone");
        return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    case RDMA_CM_EVENT_ADDR_CHANGE:
        return;
    default:
        rdma_break(link, status < 0 ? status : -EIO, "%s (%d)", rdma_event_str(type), status);
        return;
    }
    if (error != 0)
        rdma_break(link, error, "a queue pair cannot be made: %s", strerror(-error));
}

void rdma_event(struct verbs *verbs, struct rdma_cm_event *event)
{
    struct rdma_cm_id *id = event->id;
    enum rdma_cm_event_type type = event->event;
    unsigned depth = event->param.conn.initiator_depth;
    int status = event->status;
    struct hail hail = {0};

    if (type == RDMA_CM_EVENT_CONNECT_REQUEST && event->param.conn.private_data_len >= sizeof(hail))
        memcpy(&hail, event->param.conn.private_data, sizeof(hail));
    rdma_ack_cm_event(event); /* an id with events that are not cannot be destroyed */
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
        accept_lane(verbs, id, &hail, depth);
    else if (id != verbs->listener && id->context != NULL)
        lane_event(id->context, type, status);
}
