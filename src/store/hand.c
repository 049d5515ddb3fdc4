/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hand.c -- touches descriptors that strangers have passed
 *
 * One thread, to which the caller gives one task after another and waits. If it does not
 * come back in time it is left behind with its task, and another takes its place; it ends
 * when its call returns. A process that has left too many behind ends: whoever started it
 * starts it anew, with none.
 */
#include "store/hand.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/log.h"
#include "common/scribe.h"
#include "store/state.h"

#define PATIENCE_S 3
#define SHUN_NS 120000000000ull
#define SHUNNED 64 /* users; and so many threads at most are left behind */
#define PIECE (1u << 20)

enum task { TASK_STAT, TASK_KEY, TASK_READ, TASK_CLOSE };

struct hand {
    pthread_mutex_t lock;
    pthread_cond_t come, gone;
    bool wanted, left;
    enum task task;
    int fd, result;
    uint64_t offset;
    size_t length;
    struct stat status;
    struct pool_key key;
    char piece[PIECE] __attribute__((aligned(4096)));
};

static struct {
    bool threads;
    struct hand *hand;     /* with a thread, if there are threads */
    _Atomic unsigned left; /* threads that were left behind, and are not back */
    struct {
        uint32_t uid;
        uint64_t until;
    } shunned[SHUNNED];
} all;

static void do_task(struct hand *hand)
{
    ssize_t length;

    switch (hand->task) {
    case TASK_STAT:
        hand->result = fstat(hand->fd, &hand->status) < 0 ? -errno : 0;
        break;
    case TASK_KEY:
        hand->result = store_key(hand->fd, &hand->key);
        break;
    case TASK_READ:
        length = pread(hand->fd, hand->piece, hand->length, (off_t)hand->offset);
        hand->result = length < 0 ? -errno : 0;
        hand->length = length < 0 ? 0 : (size_t)length;
        break;
    case TASK_CLOSE:
        hand->result = close(hand->fd) < 0 ? -errno : 0;
        break;
    }
}

static void *work(void *argument)
{
    struct hand *hand = argument;

    pthread_mutex_lock(&hand->lock);
    while (!hand->left) {
        while (!hand->wanted && !hand->left)
            pthread_cond_wait(&hand->come, &hand->lock);
        pthread_mutex_unlock(&hand->lock);
        do_task(hand);
        pthread_mutex_lock(&hand->lock);
        hand->wanted = false;
        pthread_cond_signal(&hand->gone);
    }
    pthread_mutex_unlock(&hand->lock);
    if (hand->task != TASK_CLOSE)
        close(hand->fd);
    free(hand);
    all.left--;
    return NULL;
}

static int start(struct hand **out)
{
    struct hand *hand = aligned_alloc(4096, sizeof(*hand));
    pthread_condattr_t clock;
    pthread_t thread;
    int error;

    if (hand == NULL)
        return -ENOMEM;
    hand->wanted = hand->left = false;
    pthread_mutex_init(&hand->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&hand->come, NULL);
    pthread_cond_init(&hand->gone, &clock);
    if (all.threads) {
        error = pthread_create(&thread, NULL, work, hand);
        if (error != 0) {
            free(hand);
            return -error;
        }
        pthread_detach(thread);
    }
    *out = hand;
    return 0;
}

void hand_begin(void)
{
    all.threads = true;
}

static void leave(uint32_t uid)
{
    unsigned oldest = 0;

    all.hand->left = true;
    pthread_mutex_unlock(&all.hand->lock);
    all.hand = NULL;
    log_warn("a file of user %u does not answer: nothing is taken from that user for %u seconds",
             uid, (unsigned)(SHUN_NS / 1000000000ull));
    for (unsigned i = 1; i < SHUNNED; i++)
        if (all.shunned[i].until < all.shunned[oldest].until)
            oldest = i;
    all.shunned[oldest].uid = uid;
    all.shunned[oldest].until = portus_now() + SHUN_NS;
    if (++all.left == SHUNNED) {
        log_error("%d files of users do not answer: portusd ends, to be started anew", SHUNNED);
        portus_scribes_end();
        _exit(1);
    }
}

/* The task is in all.hand. */
static int run(uint32_t uid)
{
    struct timespec until;
    int result = 0;

    if (!all.threads) {
        do_task(all.hand);
        return all.hand->result;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&all.hand->lock);
    all.hand->wanted = true;
    pthread_cond_signal(&all.hand->come);
    while (all.hand->wanted && result == 0)
        result = pthread_cond_timedwait(&all.hand->gone, &all.hand->lock, &until);
    if (all.hand->wanted) {
        leave(uid);
        return -ETIMEDOUT;
    }
    result = all.hand->result;
    pthread_mutex_unlock(&all.hand->lock);
    return result;
}

static int prepare(enum task task, int fd)
{
    int error = all.hand == NULL ? start(&all.hand) : 0;

    if (error != 0)
        return error;
    all.hand->task = task;
    all.hand->fd = fd;
    return 0;
}

int hand_stat(uint32_t uid, int fd, struct stat *status)
{
    int error = prepare(TASK_STAT, fd);

    if (error == 0)
        error = run(uid);
    if (error == 0)
        *status = all.hand->status;
    return error;
}

int hand_key(uint32_t uid, int fd, struct pool_key *key)
{
    int error = prepare(TASK_KEY, fd);

    if (error == 0)
        error = run(uid);
    if (error == 0)
        *key = all.hand->key;
    return error;
}

int hand_read(uint32_t uid, int fd, uint64_t offset, size_t length, const char **bytes, size_t *got)
{
    int error = prepare(TASK_READ, fd);

    if (error == 0) {
        all.hand->offset = offset;
        all.hand->length = length < PIECE ? length : PIECE;
        error = run(uid);
    }
    if (error == 0) {
        *bytes = all.hand->piece;
        *got = all.hand->length;
    }
    return error;
}

int hand_close(uint32_t uid, int fd)
{
    int error = prepare(TASK_CLOSE, fd);

    return error == 0 ? run(uid) : error;
}

struct fds {
    unsigned count;
    int fd[];
};

static void *close_them(void *argument)
{
    struct fds *fds = argument;

    for (unsigned i = 0; i < fds->count; i++)
        close(fds->fd[i]);
    free(fds);
    return NULL;
}

void hand_close_all(const int *fds, unsigned count)
{
    struct fds *copy = malloc(sizeof(*copy) + count * sizeof(int));
    pthread_t thread;

    if (count == 0 || copy == NULL) {
        free(copy);
        return;
    }
    copy->count = count;
    memcpy(copy->fd, fds, count * sizeof(int));
    if (pthread_create(&thread, NULL, close_them, copy) == 0)
        pthread_detach(thread);
    else
        free(copy);
}

bool hand_shuns(uint32_t uid)
{
    for (unsigned i = 0; i < SHUNNED; i++)
        if (all.shunned[i].uid == uid && portus_now() < all.shunned[i].until)
            return true;
    return false;
}
