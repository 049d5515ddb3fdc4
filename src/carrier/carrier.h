/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * carrier.h -- a store on another machine, as if it were on this one
 *
 * Who has it run speaks to it as to a portusd on this host (proto.h): with descriptors, over
 * a packet socket. It takes them, and lets the store read what is behind them.
 */
#ifndef PORTUS_CARRIER_H
#define PORTUS_CARRIER_H

#include <stddef.h>
#include <stdint.h>

#include "portus/proto.h"
#include "transport/transport.h"

/*
 * Serves socket until either side hangs up. stores: a list of addresses; first: the number of
 * the one that is tried first. key: path of a file, "": none is set. Returns an exit status.
 */
int carrier_run(int socket, const char *stores, unsigned first, const char *key);

/* join.c: connects to the first of the list that answers, and says hello for `hello`. */
struct joined {
    struct wire *wire;
    struct lane *lane;
    const struct transport_kind *kind;
    struct portus_message welcome;
    unsigned number; /* in the list */
};
int carrier_join(struct joined *joined, const char *stores, unsigned first, const char *key,
                 const struct portus_message *hello, const struct transport_client *client);

/* One address. */
int carrier_join_one(struct joined *joined, const struct portus_address *address,
                     const struct key *key, const struct portus_message *hello,
                     const struct transport_client *client);

/* offers.c: what the store may read, and knows by name. */
struct offers {
    const struct transport_kind *kind;
    struct lane *lane;
    struct offer *first;
};
enum offer_kind { OFFER_RING, OFFER_DRAFT, OFFER_FILE };

/* Takes fd. 0 or a negative errno. What had that number before is dropped. */
int offers_add(struct offers *offers, enum offer_kind kind, uint32_t id, int fd);
void offers_drop(struct offers *offers, enum offer_kind kind, uint32_t id);
void offers_drop_all(struct offers *offers);
int offers_find(const struct offers *offers, enum offer_kind kind, uint32_t id); /* fd, or -1 */

/*
 * What the file behind fd is and where, then what is in the listing (-1: none): *bytes of
 * *length, to be freed. -ENOENT: it has no name any more.
 */
int offers_describe(int fd, int listing, void **bytes, size_t *length);

#endif
