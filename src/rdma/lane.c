/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.c -- one queue pair: its completion queue, its capabilities, its end
 *
 * Not here: what goes over it (work.c), and how it is connected (link.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "rdma/private.h"

int rdma_lane_make(struct lane *lane, struct ibv_pd *pd, unsigned depth)
{
    struct ibv_qp_init_attr attributes = {
        .cap = {.max_send_wr = DEPTH_MOST,
                .max_recv_wr = PUSHES,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    struct epoll_event wanted = {.events = EPOLLIN};
    int error;

    lane->depth = depth;
    lane->channel = ibv_create_comp_channel(lane->id->verbs);
    if (lane->channel == NULL)
        return -errno;
    if (fcntl(lane->channel->fd, F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(lane->link->verbs->epoll, EPOLL_CTL_ADD, lane->channel->fd, &wanted) < 0)
        goto channel;
    lane->cq = ibv_create_cq(lane->id->verbs, DEPTH_MOST + PUSHES, lane, lane->channel, 0);
    if (lane->cq == NULL)
        goto channel;
    if ((errno = ibv_req_notify_cq(lane->cq, 0)) != 0)
        goto cq;
    attributes.send_cq = attributes.recv_cq = lane->cq;
    if (rdma_create_qp(lane->id, pd, &attributes) != 0)
        goto cq;
    return 0;

cq:
    error = errno;
    ibv_destroy_cq(lane->cq);
    lane->cq = NULL;
    errno = error;
channel:
    error = errno;
    ibv_destroy_comp_channel(lane->channel);
    lane->channel = NULL;
    return -error;
}

void rdma_lane_unmake(struct lane *lane)
{
    if (lane->id == NULL)
        return;
    if (lane->up)
        rdma_disconnect(lane->id); /* tells the other end, too */
    lane->up = false;
    if (lane->id->qp != NULL)
        rdma_destroy_qp(lane->id);
    if (lane->cq != NULL)
        ibv_destroy_cq(lane->cq);
    if (lane->channel != NULL)
        ibv_destroy_comp_channel(lane->channel);
    rdma_destroy_id(lane->id);
    lane->id = NULL;
    lane->cq = NULL;
    lane->channel = NULL;
}

/* All completions that are there. One may break the link, and take the lane with it. */
bool rdma_lane_poll(struct lane *lane)
{
    bool any = false;
    struct ibv_cq *of;
    void *context;
    struct ibv_wc wc;

    while (lane->channel != NULL && ibv_get_cq_event(lane->channel, &of, &context) == 0) {
        ibv_ack_cq_events(of, 1);
        if ((errno = ibv_req_notify_cq(of, 0)) != 0)
            rdma_break(lane->link, -errno, "the device gives no completions any more");
    }
    while (lane->cq != NULL) {
        int n = ibv_poll_cq(lane->cq, 1, &wc);

        if (n == 0)
            break;
        any = true;
        if (n < 0)
            rdma_break(lane->link, -EIO, "the device's completions cannot be read");
        else
            rdma_work_through(lane, &wc);
    }
    return any;
}
