/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.h -- what an administrator sets: limits of users
 *
 *     # /etc/portus/portusd.conf
 *     keep 2
 *     default bytes 200G objects 5000 sessions 16
 *     user alice bytes 2T sessions 64
 *     user 1007 sessions 0
 *     key  cluster bytes 10T             # a user of other machines
 */
#ifndef PORTUS_STORE_CONFIG_H
#define PORTUS_STORE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#define CONFIG_NONE UINT64_MAX /* no limit */

struct config_limits {
    uint64_t bytes, objects, sessions;
};

struct config {
    uint64_t keep; /* 0: not set */
    struct config_limits usual;
    struct config_user {
        uint32_t uid;                /* or owner of a key */
        struct config_limits limits; /* with its own line's in place of the usual ones */
    } * user;
    size_t users;
};

/* What holds without a file; frees what was there. */
void config_reset(struct config *config);

/* Reads path. On an error each wrong line is named, and *config is as before. */
int config_load(struct config *config, const char *path);

const struct config_limits *config_limits(const struct config *config, uint32_t uid);

#endif
