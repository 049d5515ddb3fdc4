/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c -- which devices there are, and which one a link goes by
 *
 * sysfs tells: the addresses in a port's GID table are those that it can be reached by, so a device
 * is chosen by giving librdmacm that address, and the kernel finds the GID. Without a choice the
 * route to the store decides; of several devices with an address in that net the one at this
 * processor's node of memory is taken.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdma/private.h"

#define SYSFS "/sys/class/infiniband"
#define NAME 64
#define DEVICES 64
#define GIDS 256

static bool read_line(char *to, size_t size, const char *device, const char *what)
{
    char path[512];
    FILE *file;
    bool got;

    snprintf(path, sizeof(path), SYSFS "/%s/%s", device, what);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    got = fgets(to, (int)size, file) != NULL;
    fclose(file);
    if (got)
        to[strcspn(to, "\n")] = '\0';
    return got;
}

/* The names of all devices, in order. */
static unsigned list(char names[DEVICES][NAME])
{
    struct dirent **entries;
    int n = scandir(SYSFS, &entries, NULL, alphasort);
    unsigned count = 0;

    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.' && count < DEVICES)
            snprintf(names[count++], NAME, "%.*s", NAME - 1, entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return count;
}

static bool is_active(const char *device)
{
    char text[64];

    return read_line(text, sizeof(text), device, "ports/1/state") && strstr(text, "ACTIVE") != NULL;
}

/* The index-th address of a device; IPv4 ones stand in it as IPv6 ones do. False: there is none. */
static bool gid(const char *device, unsigned index, struct in6_addr *address)
{
    char what[64], text[64];

    snprintf(what, sizeof(what), "ports/1/gids/%u", index);
    return read_line(text, sizeof(text), device, what) && inet_pton(AF_INET6, text, address) == 1;
}

static bool to_socket_address(const struct in6_addr *from, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof(*to));
    if (IN6_IS_ADDR_V4MAPPED(from)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)to;

        v4->sin_family = AF_INET;
        memcpy(&v4->sin_addr, &from->s6_addr[12], sizeof(v4->sin_addr));
        return true;
    }
    if (IN6_IS_ADDR_LINKLOCAL(from) || IN6_IS_ADDR_UNSPECIFIED(from))
        return false;
    ((struct sockaddr_in6 *)to)->sin6_family = AF_INET6;
    ((struct sockaddr_in6 *)to)->sin6_addr = *from;
    return true;
}

bool rdma_address_of(const char *device, int family, struct sockaddr_storage *address)
{
    struct in6_addr raw;

    for (unsigned i = 0; i < GIDS && gid(device, i, &raw); i++)
        if (to_socket_address(&raw, address) && address->ss_family == family)
            return true;
    return false;
}

/* ---- the nearest ---- */

static int node_of(const char *device)
{
    char text[32];

    return read_line(text, sizeof(text), device, "device/numa_node") ? atoi(text) : -1;
}

/* Whether both are in the net of one of this machine's interfaces. */
static bool same_net(const struct sockaddr_in *one, const struct sockaddr_in *other)
{
    struct ifaddrs *all;
    bool same = false;

    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        const struct sockaddr_in *address = (const struct sockaddr_in *)at->ifa_addr;
        in_addr_t mask;

        if (address == NULL || address->sin_family != AF_INET || at->ifa_netmask == NULL ||
            address->sin_addr.s_addr != one->sin_addr.s_addr)
            continue;
        mask = ((const struct sockaddr_in *)at->ifa_netmask)->sin_addr.s_addr;
        same |= (one->sin_addr.s_addr & mask) == (other->sin_addr.s_addr & mask);
    }
    freeifaddrs(all);
    return same;
}

bool rdma_nearer(const struct sockaddr *by, struct sockaddr_storage *address)
{
    char names[DEVICES][NAME];
    const struct sockaddr_in *route = (const struct sockaddr_in *)by;
    unsigned count, processor, node;

    if (by->sa_family != AF_INET || getcpu(&processor, &node) != 0)
        return false;
    count = list(names);
    for (unsigned i = 0; i < count; i++) {
        struct sockaddr_storage own;

        /* The route's own device, if that is as near: nothing to choose. */
        if (is_active(names[i]) && rdma_address_of(names[i], AF_INET, &own) &&
            ((struct sockaddr_in *)&own)->sin_addr.s_addr == route->sin_addr.s_addr &&
            (node_of(names[i]) < 0 || (unsigned)node_of(names[i]) == node))
            return false;
    }
    for (unsigned i = 0; i < count; i++)
        if (is_active(names[i]) && node_of(names[i]) == (int)node &&
            rdma_address_of(names[i], AF_INET, address) &&
            same_net(route, (struct sockaddr_in *)address))
            return true;
    return false;
}

/* ---- for people ---- */

static void ask(const char *name, struct verbs_device *device)
{
    struct ibv_context **all = rdma_get_devices(NULL);
    struct ibv_device_attr attributes;
    struct ibv_port_attr port;

    for (unsigned i = 0; all != NULL && all[i] != NULL; i++) {
        if (strcmp(ibv_get_device_name(all[i]->device), name) != 0)
            continue;
        if (ibv_query_device(all[i], &attributes) == 0) {
            device->depth = (unsigned)attributes.max_qp_init_rd_atom;
            device->dialled_depth = (unsigned)attributes.max_qp_rd_atom;
            snprintf(device->firmware, sizeof(device->firmware), "%.63s", attributes.fw_ver);
        }
        if (ibv_query_port(all[i], 1, &port) == 0)
            device->mtu = port.active_mtu >= IBV_MTU_256 ? 128u << port.active_mtu : 0;
    }
    if (all != NULL)
        rdma_free_devices(all);
}

bool rdma_describe(unsigned index, struct verbs_device *device)
{
    char names[DEVICES][NAME], text[64];
    struct sockaddr_storage address;
    struct in6_addr raw;

    if (index >= list(names))
        return false;
    memset(device, 0, sizeof(*device));
    snprintf(device->name, sizeof(device->name), "%s", names[index]);
    device->port = 1;
    device->active = is_active(device->name);
    device->numa = node_of(device->name);
    device->gid_index = -1;
    if (read_line(text, sizeof(text), device->name, "ports/1/rate"))
        device->gigabits = atof(text);
    if (read_line(text, sizeof(text), device->name, "ports/1/link_layer"))
        snprintf(device->link_layer, sizeof(device->link_layer), "%.15s", text);
    for (unsigned i = 0; i < GIDS && gid(device->name, i, &raw) && device->gid_index < 0; i++)
        if (to_socket_address(&raw, &address)) {
            const void *bytes = address.ss_family == AF_INET
                                    ? (void *)&((struct sockaddr_in *)&address)->sin_addr
                                    : (void *)&((struct sockaddr_in6 *)&address)->sin6_addr;

            device->gid_index = (int)i;
            inet_ntop(address.ss_family, bytes, device->gid, sizeof(device->gid));
        }
    ask(device->name, device);
    return true;
}
