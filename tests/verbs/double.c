/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * double.c -- portus_rdma.so without RDMA, for machines that have none: tests of what goes by it
 *
 * A link is a unix socket, a READ process_vm_readv, a WRITE process_vm_writev with its number by the
 * socket. VERBS_DOUBLE=FILE: with "break" in it the next link breaks after a few reads, once. Who would
 * wait for a READ that has not gone out, as a device begins nothing by itself, is ended. Not for what
 * else devices do: see tests/vm.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "transport/verbs.h"
#include "step.h"

#define JOBS 256
#define JOBS_A_TURN 64

struct hail {
    uint8_t secret[VERBS_SECRET];
    int32_t pid;
};

struct job {
    uint64_t address, cookie;
    void *here;
    uint32_t length, number;
    bool push;
};

struct verbs_link {
    struct verbs_link *next;
    struct verbs *verbs;
    enum verbs_state state;
    bool dials;
    int error, fd;
    char why[VERBS_WHY];
    struct hail hail;
    int32_t pid; /* of the other end */
    struct job job[JOBS];
    uint64_t jobs, given, ended, told;
    unsigned reads;
    uint32_t pushed[64];
    unsigned pushes_in, pushes_out;
};

struct verbs {
    int epoll, listener;
    int works; /* eventfd: there is something to do in a turn, as a device's completions say */
    struct verbs_link *links;
};

static bool is_to_break(void)
{
    char text[256] = "";
    FILE *file = getenv("VERBS_DOUBLE") != NULL ? fopen(getenv("VERBS_DOUBLE"), "re") : NULL;

    if (file == NULL)
        return false;
    if (fread(text, 1, sizeof(text) - 1, file) == 0)
        text[0] = '\0';
    fclose(file);
    return strstr(text, "break") != NULL;
}

static void watch(struct verbs *verbs, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    epoll_ctl(verbs->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int begin(struct verbs **out, const struct verbs_options *options, char *why)
{
    struct verbs *verbs = calloc(1, sizeof(*verbs));

    verbs->epoll = epoll_create1(EPOLL_CLOEXEC);
    verbs->listener = -1;
    verbs->works = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    watch(verbs, verbs->works);
    *out = verbs;
    return 0;
}

static void break_off(struct verbs_link *link, int error, const char *why)
{
    if (link->state == VERBS_BROKEN)
        return;
    link->state = VERBS_BROKEN;
    link->error = error;
    snprintf(link->why, sizeof(link->why), "%s", why);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

static void close_link(struct verbs_link *link)
{
    struct verbs_link **at = &link->verbs->links;

    break_off(link, -ECANCELED, "closed");
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    free(link);
}

static void end(struct verbs *verbs)
{
    while (verbs->links != NULL)
        close_link(verbs->links);
    close(verbs->listener);
    close(verbs->works);
    close(verbs->epoll);
    free(verbs);
}

static int descriptor(const struct verbs *verbs)
{
    for (const struct verbs_link *link = verbs->links; link != NULL; link = link->next)
        if (link->state == VERBS_READY && link->given != link->jobs) {
            fprintf(stderr, "double of verbs: %llu READs or WRITEs are waited for that have not gone out\n",
                    (unsigned long long)(link->jobs - link->given));
            _exit(70);
        }
    return verbs->epoll;
}

static void name(struct sockaddr_un *to, socklen_t *length, const struct sockaddr *address)
{
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                          (size_t)sprintf(to->sun_path + 1, "portus-verbs-double-%u",
                                          ntohs(((const struct sockaddr_in *)address)->sin_port)));
}

static int listen_at(struct verbs *verbs, const struct sockaddr *address, socklen_t length, char *why)
{
    struct sockaddr_un own;

    name(&own, &length, address);
    verbs->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind(verbs->listener, (struct sockaddr *)&own, length) < 0 || listen(verbs->listener, 64) < 0)
        return -errno;
    watch(verbs, verbs->listener);
    return 0;
}

static struct verbs_link *new_link(struct verbs *verbs, const uint8_t *secret)
{
    struct verbs_link *link = calloc(1, sizeof(*link));

    link->verbs = verbs;
    link->fd = -1;
    memcpy(link->hail.secret, secret, VERBS_SECRET);
    link->hail.pid = getpid();
    link->next = verbs->links;
    verbs->links = link;
    return link;
}

static int expect(struct verbs *verbs, const uint8_t *secret, struct verbs_link **out)
{
    *out = new_link(verbs, secret);
    return 0;
}

static int dial(struct verbs *verbs, const struct sockaddr *address, socklen_t length,
                const uint8_t *secret, struct verbs_link **out, char *why)
{
    struct verbs_link *link = new_link(verbs, secret);
    struct sockaddr_un peer;

    name(&peer, &length, address);
    step("dial", 0);
    link->dials = true;
    link->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(link->fd, (struct sockaddr *)&peer, length) < 0 ||
        send(link->fd, &link->hail, sizeof(link->hail), MSG_NOSIGNAL) < 0) {
        snprintf(why, VERBS_WHY, "%s", strerror(errno));
        close_link(link);
        return -EHOSTUNREACH;
    }
    fcntl(link->fd, F_SETFL, O_NONBLOCK);
    watch(verbs, link->fd);
    *out = link;
    return 0;
}

static bool accept_one(struct verbs *verbs)
{
    struct verbs_link *link = verbs->links;
    int fd = accept4(verbs->listener, NULL, NULL, SOCK_CLOEXEC);
    struct hail hail;

    if (fd < 0 || recv(fd, &hail, sizeof(hail), 0) != sizeof(hail)) {
        close(fd);
        return false;
    }
    while (link != NULL && (link->dials || link->state != VERBS_BEGINS ||
                            memcmp(link->hail.secret, hail.secret, VERBS_SECRET) != 0))
        link = link->next;
    if (link == NULL) {
        close(fd);
        return false;
    }
    step("accept", 0);
    link->fd = fd;
    link->pid = hail.pid;
    link->state = VERBS_READY;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    send(fd, &link->hail.pid, sizeof(link->hail.pid), MSG_NOSIGNAL);
    watch(verbs, fd);
    return true;
}

static bool hung_up(const struct verbs_link *link)
{
    char byte;

    return recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void work(struct verbs_link *link)
{
    for (unsigned i = 0; i < JOBS_A_TURN && link->ended < link->given && link->state == VERBS_READY; i++) {
        struct job *job = &link->job[link->ended % JOBS];
        struct iovec here = {job->here, job->length},
                     there = {(void *)(uintptr_t)job->address, job->length};
        ssize_t n;

        step(job->push ? "write" : "read", 0);
        n = job->push ? process_vm_writev(link->pid, &here, 1, &there, 1, 0)
                      : process_vm_readv(link->pid, &here, 1, &there, 1, 0);
        step(job->push ? "written" : "has-read", 0);

        if (!job->push && ++link->reads % 5 == 0 && is_to_break() &&
            truncate(getenv("VERBS_DOUBLE"), 0) == 0) {
            break_off(link, -EIO, "the test wants it");
            return;
        }
        if (hung_up(link)) { /* as a device's: nothing that was read since counts */
            break_off(link, -ECONNRESET, "the other end has hung up");
            return;
        }
        if (n != (ssize_t)job->length ||
            (job->push && send(link->fd, &job->number, sizeof(job->number), MSG_NOSIGNAL) < 0)) {
            break_off(link, -EIO, "the other end's memory cannot be read or written");
            return;
        }
        link->ended++;
    }
}

static void give(struct verbs *verbs)
{
    bool any = false;

    for (struct verbs_link *link = verbs->links; link != NULL; link = link->next) {
        link->given = link->jobs;
        any |= link->ended < link->given;
    }
    if (any)
        eventfd_write(verbs->works, 1);
}

static bool turn(struct verbs *verbs)
{
    eventfd_t count;
    bool any = false;

    eventfd_read(verbs->works, &count);
    if (verbs->listener >= 0)
        any = accept_one(verbs);
    for (struct verbs_link *link = verbs->links; link != NULL; link = link->next) {
        uint64_t ended = link->ended;
        enum verbs_state state = link->state;
        uint32_t word;
        ssize_t n = -1;

        while (link->fd >= 0 && link->pushes_in - link->pushes_out < 64 &&
               (n = recv(link->fd, &word, sizeof(word), 0)) == (ssize_t)sizeof(word)) {
            any = true;
            if (link->state == VERBS_READY) {
                link->pushed[link->pushes_in++ % 64] = word;
            } else {
                link->pid = (int32_t)word;
                link->state = VERBS_READY;
            }
        }
        if (n == 0)
            break_off(link, -ECONNRESET, "the other end has hung up");
        work(link);
        any |= ended != link->ended || state != link->state;
    }
    give(verbs); /* what is left */
    return any;
}

static int keep(struct verbs *verbs, void *memory, size_t length, char *why)
{
    return 0;
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

static int open_to(struct verbs_link *link, void *memory, size_t length, struct verbs_source *out,
                   char *why)
{
    *out = (struct verbs_source){.address = (uintptr_t)memory};
    return 0;
}

static void withdraw(struct verbs_link *link, const struct verbs_source *source)
{
}

static bool pushed(struct verbs_link *link, uint32_t *number)
{
    if (link->pushes_in == link->pushes_out)
        return false;
    *number = link->pushed[link->pushes_out++ % 64];
    return true;
}

static int put(struct verbs_link *link, struct job job)
{
    if (link->state != VERBS_READY)
        return -ENOTCONN;
    if (link->jobs - link->told == JOBS)
        return -EAGAIN;
    link->job[link->jobs++ % JOBS] = job;
    return 0;
}

static int read_memory(struct verbs_link *link, const struct verbs_source *from, void *to,
                       uint32_t length, uint64_t cookie)
{
    return put(link, (struct job){.address = from->address, .here = to, .length = length, .cookie = cookie});
}

static int push(struct verbs_link *link, const struct verbs_source *to, const void *from,
                uint32_t length, uint32_t number, uint64_t cookie)
{
    return put(link, (struct job){.address = to->address, .here = (void *)(uintptr_t)from, .length = length,
                                  .number = number, .cookie = cookie, .push = true});
}

static bool done(struct verbs_link *link, uint64_t *cookie)
{
    if (link->state != VERBS_READY || link->told == link->ended)
        return false;
    *cookie = link->job[link->told++ % JOBS].cookie;
    return true;
}

static bool describe(unsigned index, struct verbs_device *device)
{
    return false;
}

extern const struct verbs_ops portus_verbs;
__attribute__((visibility("default"))) const struct verbs_ops portus_verbs = {
    .version = VERBS_VERSION, .begin = begin, .end = end, .descriptor = descriptor, .turn = turn, .keep = keep,
    .listen = listen_at, .expect = expect, .dial = dial, .close = close_link, .break_off = break_off, .state = state,
    .error = error_of, .why = why_of, .expose = open_to, .lend = open_to, .withdraw = withdraw, .pushed = pushed,
    .read = read_memory, .push = push, .done = done, .give = give, .describe = describe,
};
