/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.c -- what of a shared store is whose
 *
 * A version belongs to the uid of the process that handed it over, as the socket knows it;
 * root and the user that runs portusd see all. What a user's files need is taken from that
 * user's older versions and from no other's: nobody's save ever costs another user one.
 */
#include <stdio.h>
#include <unistd.h>

#include "common/futex.h"
#include "store/state.h"

#define OVERFLOW_UID 65534u
#define TELL_NS 1000000000ull

struct pool_share store_share(const struct store *store, uint32_t uid)
{
    const struct config_limits *limits = config_limits(&store->config, uid);

    return (struct pool_share){
        .everyone = !store->shared,
        .owner = uid,
        .bytes = limits->bytes,
        .objects = limits->objects,
    };
}

struct pool_share store_sight(const struct store *store, uint32_t uid)
{
    struct pool_share share = store_share(store, uid);

    share.everyone = !store->shared || uid == 0 || uid == store->self;
    return share;
}

bool store_crowded(const struct store *store, uint32_t uid)
{
    uint64_t count = 0;

    if (!store->shared)
        return false;
    for (unsigned i = 0; i < STORE_PEERS; i++)
        count += store->peer[i].socket >= 0 && store->peer[i].uid == uid;
    return count >= config_limits(&store->config, uid)->sessions;
}

bool store_knows(uint32_t uid)
{
    unsigned long long inside = 1, outside = 1, count = 0;
    FILE *map;

    if (uid >= KEY_OWNERS)
        return false; /* that is somebody's of another machine */
    if (uid != OVERFLOW_UID || uid == geteuid())
        return true;
    map = fopen("/proc/self/uid_map", "re");
    if (map == NULL)
        return false;
    if (fscanf(map, "%llu %llu %llu", &inside, &outside, &count) != 3)
        count = 0;
    fclose(map);
    return inside == 0 && outside == 0 && count >= UINT32_MAX;
}

bool store_may_tell(void)
{
    static uint64_t last;
    uint64_t now = portus_now();

    if (last != 0 && now - last < TELL_NS)
        return false;
    last = now;
    return true;
}
