/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spawn.h -- starts the agent, unseen by the program
 */
#ifndef PORTUS_SPAWN_H
#define PORTUS_SPAWN_H

/*
 * Starts the program at path as nobody's child: no SIGCHLD, nothing to wait
 * for, no copy of this process's page tables. Its environment is ours without
 * LD_PRELOAD, and with PORTUS_JOB=job, which may have changed since we looked; it puts
 * itself into a session of its own. Returns 0 when the
 * program was executed, or a negative errno.
 */
int portus_spawn(const char *path, const char *job);

#endif
