/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hand.h -- touches descriptors that strangers have passed
 *
 * A file of a file system that its user has made (FUSE, an overlay of one) may answer never:
 * to read, fstat, even to close. So where a store is shared those calls are made by a thread
 * that can be left behind. Whose descriptor it was is not served for a while.
 */
#ifndef PORTUS_STORE_HAND_H
#define PORTUS_STORE_HAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "store/pool.h"

/* From now on by a thread; otherwise the caller does it all. */
void hand_begin(void);

/* As fstat, store_key, pread, close, with 0 or a negative errno, of a descriptor of user uid.
 * -ETIMEDOUT: it does not answer, and belongs to nobody any more. *bytes stay until the next
 * call; *got: how many there are. */
int hand_stat(uint32_t uid, int fd, struct stat *status);
int hand_key(uint32_t uid, int fd, struct pool_key *key);
int hand_read(uint32_t uid, int fd, uint64_t offset, size_t length, const char **bytes,
              size_t *got);
int hand_close(uint32_t uid, int fd);

/* The same for many that are nobody's any more: not waited for. */
void hand_close_all(const int *fds, unsigned count);

/* Whether a descriptor of that user's has hung of late. */
bool hand_shuns(uint32_t uid);

#endif
