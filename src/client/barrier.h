/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.h -- waits until all that was captured before has reached its files
 */
#ifndef PORTUS_BARRIER_H
#define PORTUS_BARRIER_H

#include "client/writer.h"

/*
 * What is about to happen where: what is held up by a shared file system that does not answer
 * (portus_session.silent) is waited for only by what goes there, too. at, path: as of statx(2);
 * path NULL: anywhere, so all is waited for.
 */
struct portus_place {
    int at;
    const char *path;
};

#define PORTUS_ANYWHERE ((struct portus_place){-1, NULL})

/*
 * Waits until every record that any client of this agent had reserved when it was
 * called is replayed, and what was closed without waiting is closed. writer: this process's own, or
 * NULL for one that only looks through link. *waited is advanced by the nanoseconds that it took.
 * Returns 0, or the sticky error of a file of this process, which is reported once.
 */
int portus_barrier(const struct portus_link *link, struct portus_writer *writer,
                   struct portus_place place, uint64_t *waited);

/*
 * The same for what the store keeps: waits until each file that was closed is committed
 * there, or replayed.
 */
int portus_barrier_kept(const struct portus_link *link, struct portus_writer *writer,
                        struct portus_place place, uint64_t *waited);

#endif
