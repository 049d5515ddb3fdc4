/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.c -- READs and WRITEs under way
 *
 * A job is a range; it goes out in pieces, by turns over the lanes, as many as a lane may have
 * under way: as the device allows, and so few that others get their turn, too. Pieces are posted in
 * lists; a completion is asked for after each MiB, and after the last of a list: a lane never waits
 * for one that nobody has asked for. Completions of a queue pair come in order, so one tells of all
 * before it. A push goes by one lane, as its number, which comes with the last piece, must come
 * after its bytes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "rdma/private.h"

#define PIECE (256u << 10)
#define WINDOW (4u << 20)    /* bytes of a lane under way: a few times what a link holds, no more */
#define SIGNALLED (1u << 20) /* after so many bytes a completion is asked for */

static uint32_t piece(const struct verbs_link *link)
{
    return link->verbs->options.piece != 0 ? link->verbs->options.piece : PIECE;
}

bool rdma_work_waits(const struct verbs_link *link)
{
    for (unsigned i = 0; i < link->lanes; i++)
        if (link->lane[i].posted != link->lane[i].through)
            return true;
    return false;
}

static int put(struct verbs_link *link, const struct job *job)
{
    int memory = rdma_kept(link->verbs, job->here, job->length);

    if (link->state != VERBS_READY)
        return -ENOTCONN;
    if (memory < 0 || job->length == 0)
        return -EINVAL;
    if (link->jobs - link->told == JOBS)
        return -EAGAIN;
    link->job[link->jobs % JOBS] = *job;
    link->job[link->jobs % JOBS].memory = (uint32_t)memory;
    link->job[link->jobs % JOBS].lane = (uint32_t)(link->jobs % link->lanes);
    link->jobs++;
    return 0;
}

int rdma_read(struct verbs_link *link, const struct verbs_source *from, void *to, uint32_t length,
              uint64_t cookie)
{
    const struct job job = {
        .at = *from, .here = to, .length = length, .left = length, .cookie = cookie};

    return put(link, &job);
}

int rdma_push(struct verbs_link *link, const struct verbs_source *to, const void *from,
              uint32_t length, uint32_t number, uint64_t cookie)
{
    const struct job job = {.at = *to,
                            .here = (void *)from,
                            .length = length,
                            .left = length,
                            .number = number,
                            .cookie = cookie,
                            .push = true};

    return put(link, &job);
}

bool rdma_done(struct verbs_link *link, uint64_t *cookie)
{
    if (link->state != VERBS_READY || link->told == link->given ||
        link->job[link->told % JOBS].left != 0)
        return false;
    *cookie = link->job[link->told++ % JOBS].cookie;
    return true;
}

bool rdma_pushed(struct verbs_link *link, uint32_t *number)
{
    if (link->pushes_out == link->pushes_in)
        return false;
    *number = link->pushed[link->pushes_out++ % PUSHES];
    return true;
}

/* ---- out ---- */

struct list {
    struct ibv_send_wr wr[DEPTH_MOST];
    struct ibv_sge range[DEPTH_MOST];
    unsigned count;
};

static struct lane *choose(struct verbs_link *link, const struct job *job)
{
    for (unsigned i = 0; i < (job->push ? 1 : link->lanes); i++) {
        struct lane *lane =
            &link->lane[job->push ? job->lane : (link->next_lane + i) % link->lanes];

        if (lane->posted - lane->through < lane->depth &&
            (lane->bytes == 0 || lane->bytes + piece(link) <= WINDOW)) {
            link->next_lane = (unsigned)(lane - link->lane) + 1;
            return lane;
        }
    }
    return NULL;
}

static void add(struct list *list, struct lane *lane, struct job *job, uint32_t number,
                uint32_t length)
{
    unsigned i = list->count++;
    struct ibv_send_wr *wr = &list->wr[i];
    bool last = job->given + length == job->length;

    list->range[i] = (struct ibv_sge){.addr = (uintptr_t)job->here + job->given,
                                      .length = length,
                                      .lkey = lane->device->kept[job->memory]->lkey};
    *wr = (struct ibv_send_wr){
        .wr_id = lane->posted,
        .sg_list = &list->range[i],
        .num_sge = 1,
        .opcode = !job->push ? IBV_WR_RDMA_READ
                  : last     ? IBV_WR_RDMA_WRITE_WITH_IMM
                             : IBV_WR_RDMA_WRITE,
        .imm_data = htonl(job->number),
        .wr.rdma = {.remote_addr = job->at.address + job->given, .rkey = job->at.key[lane->rail]},
    };
    lane->unsignalled += length;
    if (lane->unsignalled >= SIGNALLED || (lane->posted + 1) % (lane->depth / 4 + 1) == 0) {
        wr->send_flags = IBV_SEND_SIGNALED;
        lane->unsignalled = 0;
    }
    if (i > 0)
        list->wr[i - 1].next = wr;
    lane->flight[lane->posted % DEPTH_MOST].job = number;
    lane->flight[lane->posted % DEPTH_MOST].length = length;
    lane->posted++;
    lane->bytes += length;
    job->given += length;
}

void rdma_work_give(struct verbs_link *link)
{
    static struct list lists[VERBS_LANES];
    struct ibv_send_wr *bad;
    bool idle = !rdma_work_waits(link);
    int error = 0;

    if (link->state != VERBS_READY || link->given == link->jobs)
        return;
    for (unsigned i = 0; i < link->lanes; i++)
        lists[i].count = 0;
    while (link->given < link->jobs) {
        struct job *job = &link->job[link->given % JOBS];
        struct lane *lane = choose(link, job);
        uint32_t length = job->length - job->given;

        if (lane == NULL)
            break;
        length = length < piece(link) ? length : piece(link);
        add(&lists[lane - link->lane], lane, job, (uint32_t)(link->given % JOBS), length);
        if (job->given == job->length)
            link->given++;
    }
    if (idle)
        link->deadline = rdma_now() + link->verbs->options.answer_ms * 1000000ull;
    for (unsigned i = 0; i < link->lanes && error == 0; i++) {
        struct list *list = &lists[i];

        if (list->count == 0)
            continue;
        list->wr[list->count - 1].send_flags = IBV_SEND_SIGNALED;
        link->lane[i].unsignalled = 0;
        error = ibv_post_send(link->lane[i].id->qp, list->wr, &bad);
    }
    if (error != 0)
        rdma_break(link, -error, "the device takes no work: %s", strerror(error));
}

/* ---- in ---- */

int rdma_post_receives(struct lane *lane, unsigned count)
{
    struct ibv_recv_wr wr = {0}, *bad;
    int error = 0;

    while (count-- > 0 && error == 0)
        error = ibv_post_recv(lane->id->qp, &wr, &bad);
    return -error;
}

void rdma_work_through(struct lane *lane, const struct ibv_wc *wc)
{
    struct verbs_link *link = lane->link;

    if (wc->status != IBV_WC_SUCCESS) {
        rdma_break(
            link, wc->status == IBV_WC_REM_ACCESS_ERR ? -EACCES : -EIO, "%s",
            wc->status == IBV_WC_RETRY_EXC_ERR
                ? "the other end does not answer (transport retry counter exceeded)"
            : wc->status == IBV_WC_WR_FLUSH_ERR
                ? "its queue pair is in error (the other end has hung up, or read what it may not)"
                : ibv_wc_status_str(wc->status));
        return;
    }
    link->deadline = rdma_now() + link->verbs->options.answer_ms * 1000000ull;
    if (wc->opcode & IBV_WC_RECV) {
        if (link->pushes_in - link->pushes_out == PUSHES ||
            wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
            rdma_break(link, -EPROTO, "the other end sends what nobody asked for");
            return;
        }
        link->pushed[link->pushes_in++ % PUSHES] = ntohl(wc->imm_data);
        if (rdma_post_receives(lane, 1) != 0)
            rdma_break(link, -EIO, "the device takes no receives");
        return;
    }
    for (; lane->through <= wc->wr_id; lane->through++) {
        uint32_t length = lane->flight[lane->through % DEPTH_MOST].length;

        link->job[lane->flight[lane->through % DEPTH_MOST].job].left -= length;
        lane->bytes -= length;
    }
}
