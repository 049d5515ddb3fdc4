/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor.h -- what the examinations of portusctl doctor share
 *
 * An examination tries a thing rather than concluding from a version number,
 * leaves nothing behind, and says one line for each point.
 */
#ifndef PORTUS_CTL_DOCTOR_H
#define PORTUS_CTL_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/env.h"
#include "ctl/install.h"

enum verdict {
    WORKS = 0,  /* "ok" of one line */
    SLOWER = 1, /* something is not captured, or is captured less well */
    OFF = 2,    /* nothing can be captured */
};

struct doctor {
    const struct portus_env *env;
    int wrong_env; /* variables with wrong values */
    const char *job;
    bool has_shim;
    char shim[PATH_MAX];
    enum verdict scope;   /* worst line since doctor_scope(); see there */
    struct check *checks; /* doctor.c's */
    unsigned count;
};

/*
 * Says a line. check: what was examined; todo: what to do, "" if nothing; the
 * rest: what was found and what it means. All may contain untrusted text.
 */
void doctor_say(struct doctor *doctor, enum verdict state, const char *check, const char *todo,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The machine: kernel, calls, limits, memory. (doctor_host.c) */
void doctor_kernel(struct doctor *doctor);
void doctor_calls(struct doctor *doctor);
void doctor_limits(struct doctor *doctor);
void doctor_memory(struct doctor *doctor);

/* Portus itself: environment, shim, agent, one that runs. (doctor_setup.c) */
void doctor_environment(struct doctor *doctor);
void doctor_shim(struct doctor *doctor);
void doctor_agent(struct doctor *doctor);
void doctor_preload(struct doctor *doctor);

/*
 * Whether the loader of this system takes the shim into program, which is listed
 * by it and not run. *said: its complaint, if any. Needs has_shim.
 */
bool doctor_loads(const struct doctor *doctor, const char *program, char *said, unsigned room);

/* Stores on other machines: a list of addresses. (doctor_store.c) */
void doctor_store(struct doctor *doctor, const char *list);
/* RDMA devices of this machine. (doctor_rdma.c) */
void doctor_rdma(struct doctor *doctor);

/* One directory, one command. */
void doctor_directory(struct doctor *doctor, const char *path);
void doctor_command(struct doctor *doctor, const char *name);

#endif
