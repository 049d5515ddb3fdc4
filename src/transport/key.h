/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * key.h -- pre-shared keys: whose connection it is, and what only both ends know
 *
 * A file of lines `NAME KEY`: a client has one line (PORTUS_KEY), a store one for each of
 * its users. NAME is what the store knows the user by, KEY are 64 hexadecimal digits. The
 * file must be readable by its owner alone.
 */
#ifndef PORTUS_TRANSPORT_KEY_H
#define PORTUS_TRANSPORT_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_NAME 64 /* bytes, with the NUL */
#define KEY_BYTES 32

/* Owners of versions that came over the network; uids of a host are below. */
#define KEY_OWNERS 0x80000000u

struct key {
    char name[KEY_NAME];
    uint8_t secret[KEY_BYTES];
    uint32_t owner; /* made of the name */
};

struct keys {
    struct key *key;
    size_t count;
};

/* What a name's versions belong to. */
uint32_t key_owner(const char *name);
bool key_name_right(const char *name);

/* Reads path; logs what is wrong with it, the first thing. 0 or a negative errno: -EACCES:
 * others may read it, or it is not this user's; -EINVAL: a wrong line. */
int keys_load(struct keys *keys, const char *path);
void keys_free(struct keys *keys);
const struct key *keys_find(const struct keys *keys, const char *name);

/* A new key's line, with its newline, at path, which must not be there yet. 0 or a negative errno.
 */
int key_make(const char *name, const char *path);

#endif
