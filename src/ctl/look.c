// SPDX-License-Identifier: BSD-3-Clause
/*
 * look.c -- a copy of what the agent and its clients say about themselves
 *
 * Not a consistent snapshot: the counters go on while they are read. They only
 * grow, and what must not seem finished is read first (drained before captured,
 * tail before head), so a copy never shows more done than there was.
 */
#include "ctl/look.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/futex.h"
#include "ctl/ctl.h"
#include "ctl/text.h"

#define LOAD(word) atomic_load_explicit(&(word), memory_order_acquire)

/* The same for words that are not declared atomic. */
#define ONCE(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)

/* Agents of this user that go by another name: of a job, or of another cgroup. */
static unsigned count_others(void)
{
    char line[256], prefix[64];
    unsigned count = 0;
    FILE *file = fopen("/proc/net/unix", "re");

    if (file == NULL)
        return 0;
    snprintf(prefix, sizeof(prefix), " @portus/1/%u/", (unsigned)geteuid());
    /* A listening socket's line has the flag that it accepts: __SO_ACCEPTCON, 00010000. */
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, prefix) != NULL && strstr(line, " 00010000 ") != NULL;
    fclose(file);
    return count;
}

static int none(const char *command)
{
    unsigned others = isatty(STDERR_FILENO) ? count_others() : 0;

    if (others > 0)
        complain("%s: %u of your agents run%s for another job or cgroup: use --job, or ask from "
                 "inside it",
                 command, others, others == 1 ? "s" : "");
    return LOOK_NO_AGENT;
}

int look_open(struct portus_link *link, const char *job, const char *command)
{
    struct portus_link_options options = {.role = PORTUS_ROLE_LOOK, .job = job};
    const char *why = "it does not answer";
    struct timespec pause = {0, 20000000};
    bool ended = false;
    int error;

    /* One that is just ending hangs up: then there is none, or the next one. */
    for (int i = 0; i < 5; i++) {
        error = portus_link_open(link, &options, &why);
        if (error != -ECONNRESET && error != -EPIPE)
            break;
        ended = true;
        nanosleep(&pause, NULL);
    }
    if (error == 0)
        return 0;
    if (error == -ECONNREFUSED)
        return ended ? LOOK_ENDED : none(command);
    if (error == -EPROTO)
        complain("%s: an agent runs, but not of this version (%s): use the portusctl beside it",
                 command, PORTUS_VERSION);
    else
        complain("%s: cannot ask the agent: %s (%s)", command, why, strerror(-error));
    return -1;
}

/* Copies at most length bytes of text and ends it; out has room for length + 1. */
static void copy_text(char *out, const char *text, size_t length)
{
    size_t i = 0;

    while (i < length && (out[i] = __atomic_load_n(&text[i], __ATOMIC_RELAXED)) != '\0')
        i++;
    out[i] = '\0';
}

static uint32_t as_pid(uint32_t pid)
{
    return pid <= INT32_MAX ? pid : 0;
}

static uint64_t since(uint64_t now, uint64_t then)
{
    return then != 0 && then < now ? now - then : 0;
}

static void copy_session(struct view_session *out, struct portus_session *session, uint32_t number)
{
    out->number = number;
    out->serial = LOAD(session->serial);
    out->pid = as_pid(LOAD(session->pid));
    out->tail = LOAD(session->tail);
    out->head = LOAD(session->head) >> 1;
    out->drained = LOAD(session->drained);
    out->captured = LOAD(session->captured);
    out->ring_bytes = LOAD(session->ring_bytes);
    out->claimed = LOAD(session->claimed);
    if (out->tail > out->head)
        out->tail = out->head;
    if (out->drained > out->captured)
        out->drained = out->captured;
    if (out->ring_bytes > PORTUS_RING_MAX)
        out->ring_bytes = PORTUS_RING_MAX;
}

static void copy_file(struct view_file *out, struct portus_file *file, uint64_t now)
{
    char path[PORTUS_FILE_PATH + 1];

    out->closed = LOAD(file->closed) != 0;
    out->leaseless = LOAD(file->leaseless) != 0;
    out->error = LOAD(file->error) & ~PORTUS_ERROR_REPORTED;
    out->device = ONCE(file->device);
    out->inode = ONCE(file->inode);
    for (unsigned i = 0; i < PORTUS_ANCESTORS; i++)
        out->directory[i] = ONCE(file->directory[i]);
    out->drained = LOAD(file->drained);
    out->captured = LOAD(file->captured);
    out->size = LOAD(file->size);
    out->since_ns = ONCE(file->since_ns);
    out->age_ns = since(now, out->since_ns);
    if (out->drained > out->captured)
        out->drained = out->captured;
    copy_text(path, file->path, PORTUS_FILE_PATH);
    snprintf(out->path, sizeof(out->path), "%s%s", path[0] == '/' ? "" : "...", path);
}

void look(struct view *view, struct portus_control *control)
{
    uint64_t now = portus_now();

    view->progress = LOAD(control->progress);
    copy_text(view->release, control->release, sizeof(control->release));
    view->keeper = as_pid(LOAD(control->keeper));
    view->worker = as_pid(LOAD(control->worker));
    view->passive = LOAD(control->passive);
    view->restarts = LOAD(control->restarts);
    view->errors = LOAD(control->errors);
    view->uptime_ns = since(now, ONCE(control->started_ns));
    view->store = LOAD(control->store);
    view->waits = LOAD(control->waits);
    view->waited_ns = LOAD(control->waited_ns);
    view->refused = 0;
    for (unsigned i = 0; i < PORTUS_REASON_COUNT; i++)
        view->refused += LOAD(control->refused[i]);
    view->undrained_limit = LOAD(control->undrained_limit);
    view->drain_rate = LOAD(control->drain_rate);
    view->drained_files = LOAD(control->drained_files);
    view->drained_bytes = LOAD(control->drained_bytes);
    copy_text(view->last_error, control->last_error, PORTUS_ERROR_TEXT);

    /* Files first: one that was handed on and is gone in the copy has its records drained. */
    view->files = 0;
    for (uint32_t i = 0; i < PORTUS_FILES; i++) {
        struct portus_file *file = &control->file[i];
        uint32_t owner = LOAD(file->owner), state = LOAD(file->state);

        if (owner == 0 || owner > PORTUS_SESSIONS || state == PORTUS_FILE_FREE ||
            state > PORTUS_FILE_DONE)
            continue;
        struct view_file *out = &view->file[view->files++];
        out->slot = i;
        out->session = owner - 1;
        out->state = state;
        out->pid = as_pid(LOAD(control->session[owner - 1].pid));
        copy_file(out, file, now);
    }
    view->sessions = 0;
    for (uint32_t i = 0; i < PORTUS_SESSIONS; i++) {
        uint32_t state = LOAD(control->session[i].state);

        if (state != PORTUS_SESSION_ACTIVE && state != PORTUS_SESSION_DYING)
            continue;
        struct view_session *out = &view->session[view->sessions++];
        out->state = state;
        copy_session(out, &control->session[i], i);
    }
}

void look_pause(const struct portus_link *link, const struct view *view)
{
    struct portus_control *control = link->control;
    struct timespec floor = {0, 10000000};

    /* The agent advances the word for each piece; more than 100 looks a second help nobody. */
    nanosleep(&floor, NULL);
    atomic_fetch_add(&control->progress_waiters, 1);
    portus_futex_wait(&control->progress, view->progress, 90);
    atomic_fetch_sub(&control->progress_waiters, 1);
}

bool view_live(const struct view_file *file)
{
    return file->state == PORTUS_FILE_CLAIMED || file->state == PORTUS_FILE_LIVE ||
           file->state == PORTUS_FILE_TRIMMED;
}

uint64_t view_left(const struct view *view)
{
    uint64_t left = 0;

    for (unsigned i = 0; i < view->sessions; i++)
        left += view->session[i].captured - view->session[i].drained;
    return left;
}
