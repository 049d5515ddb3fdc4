/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * look.h -- a copy of what the agent and its clients say about themselves
 *
 * The control segment is written by other processes while it is read. look()
 * copies each value once and puts it into its range; everything else in
 * portusctl works on the copy. Text in it is only ended, not cleaned: see text.h.
 */
#ifndef PORTUS_CTL_LOOK_H
#define PORTUS_CTL_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/link.h"
#include "portus/ring.h"

struct view_session {
    uint32_t number, state, pid, serial;
    uint64_t head, tail; /* records, without the flag */
    uint64_t captured;   /* bytes; never less than ... */
    uint64_t drained;
    uint64_t ring_bytes;
    uint64_t claimed; /* records that a store has pulled; PORTUS_UNCLAIMED: it pulls none */
};

struct view_file {
    uint32_t slot;    /* its place in the control segment */
    uint32_t session; /* number of its owner's session */
    uint32_t pid;     /* its owner's; 0: not known */
    uint32_t state;   /* enum portus_file_state */
    bool closed, leaseless;
    uint32_t error;
    uint64_t device, inode, directory[PORTUS_ANCESTORS];
    uint64_t size, captured, drained, since_ns;
    uint64_t age_ns;
    char path[PORTUS_FILE_PATH + 4]; /* "..." in front where its beginning is not known */
};

struct view {
    char release[33];
    uint32_t keeper, worker, passive, restarts;
    uint32_t progress; /* read before everything else: for look_pause() */
    uint32_t errors;
    uint64_t uptime_ns;
    uint32_t store;            /* PORTUS_WELCOME_*; 0: none */
    uint64_t waits, waited_ns; /* of programs, in calls */
    uint64_t refused;          /* files that were not captured */
    uint64_t undrained_limit, drain_rate, drained_files, drained_bytes;
    char last_error[PORTUS_ERROR_TEXT + 1];
    unsigned sessions; /* those that are not free */
    unsigned files;    /* those that are not free */
    struct view_session session[PORTUS_SESSIONS];
    struct view_file file[PORTUS_FILES];
};

#define LOOK_NO_AGENT 1

#define LOOK_ENDED 2 /* there is none any more: it ended just now */

/*
 * Connects to the agent of job as a looker and starts none. Returns 0,
 * LOOK_NO_AGENT, LOOK_ENDED, or -1 after a message in the name of command.
 */
int look_open(struct portus_link *link, const char *job, const char *command);

/* What there is to say when look_open() has found none. */
#define LOOK_NO_AGENT_TEXT "no agent runs for this user and container"

/* Copies the control segment, which must be mapped whole. */
void look(struct view *view, struct portus_control *control);

/* Waits until the drain has gone on since view was taken, 100 ms at most, 10 ms at least. */
void look_pause(const struct portus_link *link, const struct view *view);

/* Whether the file still is the agent's: not yet an ordinary file. */
bool view_live(const struct view_file *file);

/* Bytes of all sessions that are captured and not drained. */
uint64_t view_left(const struct view *view);

#endif
