/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c -- the plug-in's table: what a process has, and one turn of it
 *
 * See verbs.h. No symbol but portus_verbs is exported.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "rdma/private.h"

#define ANSWER_MS 10000
#define LANES 2
#define BACKLOG 64
#define EVENTS_A_TURN 64

uint64_t rdma_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int begin(struct verbs **out, const struct verbs_options *options, char *why)
{
    struct epoll_event wanted = {.events = EPOLLIN};
    struct verbs *verbs = calloc(1, sizeof(*verbs));
    int error;

    if (verbs == NULL)
        return -ENOMEM;
    verbs->options = *options;
    if (verbs->options.answer_ms == 0)
        verbs->options.answer_ms = ANSWER_MS;
    if (verbs->options.lanes == 0)
        verbs->options.lanes = LANES;
    if (verbs->options.lanes > VERBS_LANES)
        verbs->options.lanes = VERBS_LANES;
    verbs->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (verbs->epoll < 0) {
        error = -errno;
        snprintf(why, VERBS_WHY, "epoll: %s", strerror(-error));
        goto memory;
    }
    verbs->events = rdma_create_event_channel();
    if (verbs->events == NULL) {
        error = -errno;
        snprintf(
            why, VERBS_WHY,
            "no RDMA here: /dev/infiniband/rdma_cm: %s (modprobe rdma_ucm, or a device's driver)",
            strerror(-error));
        goto epoll;
    }
    if (fcntl(verbs->events->fd, F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(verbs->epoll, EPOLL_CTL_ADD, verbs->events->fd, &wanted) < 0) {
        error = -errno;
        snprintf(why, VERBS_WHY, "epoll: %s", strerror(-error));
        goto events;
    }
    *out = verbs;
    return 0;

events:
    rdma_destroy_event_channel(verbs->events);
epoll:
    close(verbs->epoll);
memory:
    free(verbs);
    return error;
}

static void close_link(struct verbs_link *link)
{
    struct verbs_link **at = &link->verbs->links;

    rdma_break(link, -ECANCELED, "closed");
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    rdma_withdraw_all(link);
    for (unsigned i = 0; i < link->rails; i++)
        ibv_dealloc_pd(link->rail[i].pd);
    explicit_bzero(link->secret, sizeof(link->secret));
    free(link);
}

static void end(struct verbs *verbs)
{
    struct device *device;

    while (verbs->links != NULL)
        close_link(verbs->links);
    if (verbs->listener != NULL)
        rdma_destroy_id(verbs->listener);
    while ((device = verbs->devices) != NULL) {
        verbs->devices = device->next;
        rdma_device_end(device);
    }
    rdma_destroy_event_channel(verbs->events);
    close(verbs->epoll);
    free(verbs);
}

static int descriptor(const struct verbs *verbs)
{
    return verbs->epoll;
}

static bool turn(struct verbs *verbs)
{
    struct rdma_cm_event *event;
    bool any = false;

    for (unsigned i = 0; i < EVENTS_A_TURN && rdma_get_cm_event(verbs->events, &event) == 0; i++) {
        rdma_event(verbs, event);
        any = true;
    }
    for (struct verbs_link *link = verbs->links; link != NULL; link = link->next)
        any |= rdma_link_turn(link);
    return any;
}

static void give(struct verbs *verbs)
{
    for (struct verbs_link *link = verbs->links; link != NULL; link = link->next)
        rdma_work_give(link);
}

static int start_listening(struct verbs *verbs, const struct sockaddr *address, socklen_t length,
                           char *why)
{
    struct sockaddr_storage own = {0};
    int error = 0;

    memcpy(&own, address, length < sizeof(own) ? length : sizeof(own));
    if (rdma_create_id(verbs->events, &verbs->listener, NULL, RDMA_PS_TCP) != 0) {
        error = -errno;
    } else if (rdma_bind_addr(verbs->listener, (struct sockaddr *)&own) != 0 ||
               rdma_listen(verbs->listener, BACKLOG) != 0) {
        error = -errno;
        rdma_destroy_id(verbs->listener);
        verbs->listener = NULL;
    }
    if (error == -ENODEV || error == -EADDRNOTAVAIL)
        snprintf(why, VERBS_WHY, "no RDMA device has that address");
    else if (error != 0)
        snprintf(why, VERBS_WHY, "cannot listen by RDMA: %s", strerror(-error));
    return error;
}

static struct verbs_link *new_link(struct verbs *verbs, const uint8_t *secret)
{
    struct verbs_link *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return NULL;
    link->verbs = verbs;
    memcpy(link->secret, secret, sizeof(link->secret));
    link->deadline = rdma_now() + verbs->options.answer_ms * 1000000ull;
    for (unsigned i = 0; i < VERBS_LANES; i++)
        link->lane[i].link = link;
    link->next = verbs->links;
    verbs->links = link;
    return link;
}

static int expect(struct verbs *verbs, const uint8_t *secret, struct verbs_link **out)
{
    struct verbs_link *link = new_link(verbs, secret);

    if (link == NULL)
        return -ENOMEM;
    *out = link;
    return 0;
}

/* The addresses of the devices that are to be used; none: as the route says. */
static int find_sources(struct verbs_link *link, char *why)
{
    const struct sockaddr *peer = (const struct sockaddr *)&link->peer;
    struct sockaddr_storage by;
    socklen_t length = sizeof(by);
    char names[sizeof(link->verbs->options.devices)], *at, *name;
    int fd;

    strcpy(names, link->verbs->options.devices);
    for (name = strtok_r(names, ",", &at); name != NULL && link->froms < VERBS_RAILS;
         name = strtok_r(NULL, ",", &at)) {
        if (!rdma_address_of(name, peer->sa_family, &link->from[link->froms])) {
            snprintf(why, VERBS_WHY,
                     "PORTUS_RDMA_DEV names %.60s, which is no RDMA device with an address of that "
                     "family (portusctl doctor lists them)",
                     name);
            return -ENODEV;
        }
        link->froms++;
    }
    if (link->froms > 0)
        return 0;
    fd = socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (connect(fd, peer, sizeof(link->peer)) == 0 &&
        getsockname(fd, (struct sockaddr *)&by, &length) == 0 &&
        rdma_nearer((struct sockaddr *)&by, &link->from[0]))
        link->froms = 1;
    close(fd);
    return 0;
}

static int dial(struct verbs *verbs, const struct sockaddr *address, socklen_t length,
                const uint8_t *secret, struct verbs_link **out, char *why)
{
    struct verbs_link *link = new_link(verbs, secret);
    int error;

    if (link == NULL)
        return -ENOMEM;
    link->dials = true;
    link->lanes = verbs->options.lanes;
    memcpy(&link->peer, address, length < sizeof(link->peer) ? length : sizeof(link->peer));
    error = find_sources(link, why);
    for (unsigned i = 0; i < link->lanes && error == 0; i++) {
        struct lane *lane = &link->lane[i];
        struct sockaddr *from =
            link->froms > 0 ? (struct sockaddr *)&link->from[i % link->froms] : NULL;

        if (rdma_create_id(verbs->events, &lane->id, lane, RDMA_PS_TCP) != 0 ||
            rdma_resolve_addr(lane->id, from, (struct sockaddr *)&link->peer, RESOLVE_MS) != 0) {
            error = -errno;
            snprintf(why, VERBS_WHY, "no RDMA device has a way there: %s", strerror(-error));
        }
    }
    if (error != 0) {
        close_link(link);
        return error;
    }
    *out = link;
    return 0;
}

static void break_off(struct verbs_link *link, int error, const char *why)
{
    rdma_break(link, error, "%s", why);
}

static enum verbs_state state(const struct verbs_link *link)
{
    return link->state;
}

static int error_of(const struct verbs_link *link)
{
    return link->error;
}

static const char *why_of(const struct verbs_link *link)
{
    return link->why;
}

extern const struct verbs_ops portus_verbs;
__attribute__((visibility("default"))) const struct verbs_ops portus_verbs = {
    .version = VERBS_VERSION,
    .begin = begin,
    .end = end,
    .descriptor = descriptor,
    .turn = turn,
    .keep = rdma_keep,
    .listen = start_listening,
    .expect = expect,
    .dial = dial,
    .close = close_link,
    .break_off = break_off,
    .state = state,
    .error = error_of,
    .why = why_of,
    .expose = rdma_expose,
    .lend = rdma_lend,
    .withdraw = rdma_withdraw,
    .pushed = rdma_pushed,
    .read = rdma_read,
    .push = rdma_push,
    .done = rdma_done,
    .give = give,
    .describe = rdma_describe,
};
