/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.h -- the name of a store on another machine: tcp://HOST[:PORT], or a list of such
 */
#ifndef PORTUS_ADDRESS_H
#define PORTUS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#define PORTUS_ADDRESS_PORT "7470"
#define PORTUS_ADDRESS_HOST 254 /* bytes of a name at most, with the NUL */
#define PORTUS_ADDRESSES 16     /* of a list at most */

enum portus_scheme { PORTUS_SCHEME_TCP, PORTUS_SCHEME_RDMA };

struct portus_address {
    enum portus_scheme scheme;
    char host[PORTUS_ADDRESS_HOST]; /* a name, or an address without brackets */
    char port[6];
    char text[PORTUS_ADDRESS_HOST + 24]; /* for people */
};

/* Whether a store's name is that of one on another machine, or a list. */
bool portus_address_is(const char *name);

/* The entry of that number in a list separated by commas. False: there is none, or no right one. */
bool portus_address_get(struct portus_address *address, const char *list, unsigned number);

/* How many a list has, if all are right and not too many; 0: they are not. */
unsigned portus_address_count(const char *list);

/* What an error of a connection means to a user. */
const char *portus_address_why(int error);

#endif
