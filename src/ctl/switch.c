// SPDX-License-Identifier: BSD-3-Clause
/*
 * switch.c -- portusctl off and on: a running job goes passive, and back
 *
 * One message to the agent; its answer is the word `passive` in the control
 * segment. Not here: what a program does then (the shim asks that word at each
 * open). The state is the agent's and ends with it.
 */
#include <stdio.h>
#include <string.h>

#include "common/futex.h"
#include "ctl/bar.h"
#include "ctl/ctl.h"
#include "ctl/look.h"
#include "ctl/text.h"

/* What a living agent needs at most to take a message. */
#define ANSWER_NS 10000000000ull

static struct view view;

static unsigned live_files(void)
{
    unsigned live = 0;

    for (unsigned i = 0; i < view.files; i++)
        live += view_live(&view.file[i]);
    return live;
}

/* Connects and sends. Returns 0, or an exit status after a message. */
static int tell(struct portus_link *link, const struct options *options, enum portus_op op,
                const char *command)
{
    int found = look_open(link, options->job, command), error;

    if (found > 0)
        complain("%s: " LOOK_NO_AGENT_TEXT ": PORTUS=off in a program's environment does it from "
                 "its start",
                 command);
    if (found != 0)
        return CTL_FAILED;
    look(&view, link->control);
    if (view.passive == PORTUS_PASSIVE_TERM && op == PORTUS_OP_ON) {
        complain("%s: the agent was told to end: the next save starts another one, which captures",
                 command);
        return CTL_FAILED;
    }
    error = portus_link_send(link, op, 0, 0, -1);
    if (error != 0) {
        complain("%s: cannot reach the agent: %s", command, strerror(-error));
        return CTL_FAILED;
    }
    portus_link_wake(link);
    return 0;
}

/* Whether the agent has done what it was told. */
static bool done(enum portus_op op)
{
    return op == PORTUS_OP_ON ? view.passive == PORTUS_CAPTURING
                              : view.passive != PORTUS_CAPTURING && live_files() == 0;
}

/* Waits until done(). Returns 0, or an exit status after a message. */
static int follow(struct portus_link *link, const struct options *options, enum portus_op op,
                  const char *command)
{
    uint64_t began = portus_now(), drained = view.drained_bytes;
    char left[TEXT_BYTES];
    struct bar bar;
    bool dead;

    bar_start(&bar);
    for (;;) {
        uint64_t passed = portus_now() - began;

        dead = portus_link_dead(link); /* before the look: what it did last is seen */
        look(&view, link->control);
        if (done(op))
            break;
        bar_draw(&bar, view.drained_bytes - drained, view_left(&view), NULL);
        text_bytes(left, view_left(&view));
        if (dead || passed >= options->timeout_ns ||
            (passed >= ANSWER_NS && (view.passive == PORTUS_CAPTURING) == (op == PORTUS_OP_OFF))) {
            bar_clear(&bar);
            if (dead)
                complain("%s: the agent is gone with %s not drained: see portusctl status", command,
                         left);
            else if ((view.passive == PORTUS_CAPTURING) == (op == PORTUS_OP_OFF))
                complain("%s: the agent does not answer: is process %u stopped?", command,
                         view.worker);
            else
                complain("%s: timed out: it is off, but %u files with %s are not drained", command,
                         live_files(), left);
            return CTL_FAILED;
        }
        look_pause(link, &view);
    }
    bar_clear(&bar);
    return 0;
}

static int switch_main(int argc, char **argv, enum portus_op op)
{
    struct options options;
    struct portus_link link;
    char left[TEXT_BYTES];
    uint64_t bytes;
    uint32_t errors;
    unsigned files;
    int operand = options_parse(&options, argc, argv, OPTION_JOB | OPTION_TIMEOUT), status;

    if (operand < 0)
        return CTL_USAGE;
    if (operand < argc) {
        complain("%s: it takes no arguments: see portusctl help %s", argv[0], argv[0]);
        return CTL_USAGE;
    }
    status = tell(&link, &options, op, argv[0]);
    if (status != 0)
        return status;
    bytes = view_left(&view);
    files = live_files();
    errors = view.errors;
    status = follow(&link, &options, op, argv[0]);
    portus_link_close(&link);
    if (status != 0)
        return status;
    if (op == PORTUS_OP_ON) {
        puts("on: what is saved from now on is captured");
    } else if (view.errors != errors) {
        char text[TEXT_ROOM(PORTUS_ERROR_TEXT)];

        complain("off: it is off, but the agent met an error: %s",
                 text_safe(text, sizeof(text), view.last_error));
        return CTL_FAILED;
    } else if (bytes == 0) {
        puts("off: nothing was left to drain; programs write as usual");
    } else {
        printf("off: %s in %u %s were left and are drained; programs write as usual\n",
               text_bytes(left, bytes), files, files == 1 ? "file" : "files");
    }
    return CTL_OK;
}

int off_main(int argc, char **argv)
{
    return switch_main(argc, argv, PORTUS_OP_OFF);
}

int on_main(int argc, char **argv)
{
    return switch_main(argc, argv, PORTUS_OP_ON);
}
