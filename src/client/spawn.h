/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spawn.h -- starts the agent, and others of ours, unseen by the program
 */
#ifndef PORTUS_SPAWN_H
#define PORTUS_SPAWN_H

/*
 * Starts the program at arguments[0] as nobody's child: no SIGCHLD, nothing to wait
 * for, no copy of this process's page tables. Its environment is ours without
 * LD_PRELOAD, and with PORTUS_JOB=job, which may have changed since we looked. Of our
 * descriptors it has output as standard output and errors as standard error, each
 * /dev/null if -1. arguments end with NULL. Returns 0 when the program was executed, or a
 * negative errno.
 */
int portus_spawn(const char *const *arguments, const char *job, int output, int errors);

#endif
