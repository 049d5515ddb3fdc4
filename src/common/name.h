/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * name.h -- the address of this user's agent
 *
 * One agent serves one (uid, cgroup, mount, pid and user namespace): those who
 * share memory limits and see the same files and process numbers. PORTUS_JOB
 * takes the place of the cgroup.
 */
#ifndef PORTUS_NAME_H
#define PORTUS_NAME_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/*
 * Fills in the abstract address for job ("": the cgroup). Returns 0, or a
 * negative errno when /proc does not say where this process is.
 */
int portus_name(struct sockaddr_un *address, socklen_t *length, const char *job);

#define PORTUS_NAME_UNIX "unix:"

/*
 * The same of the store that serves the pool at path (a file or a device), which every
 * process of this user finds, in any job; or of the one that listens at unix:PATH, for
 * several users. Or a negative errno: no pool is there.
 */
int portus_name_store(struct sockaddr_un *address, socklen_t *length, const char *path);

/* A number of that store, however its path is written, to tell it from others; "": 0. */
uint32_t portus_store_hash(const char *path);

#endif
