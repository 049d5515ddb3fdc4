/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c -- memory that a device may touch, and its keys
 *
 * Kept memory (portusd: its buffers, a devdax pool) is for this process's own READs and WRITEs:
 * it has no right for anybody else. Exposed memory (an agent's ring) may be read by the other end
 * of one link and by nobody else: each link has protection domains of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "rdma/private.h"

/* Why so many bytes cannot be registered, and what to do. */
static int cannot(int error, size_t length, char *why)
{
    struct rlimit limit;

    if ((error == ENOMEM || error == EAGAIN || error == EPERM) &&
        getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(why, VERBS_WHY,
                 "RLIMIT_MEMLOCK is %llu KiB, and %zu KiB more are to be registered with the RDMA "
                 "device (ulimit -l unlimited, LimitMEMLOCK=infinity)",
                 (unsigned long long)limit.rlim_cur >> 10, length >> 10);
    else
        snprintf(why, VERBS_WHY, "%zu KiB of memory cannot be registered with the RDMA device: %s",
                 length >> 10, strerror(error));
    return -error;
}

static int register_kept(struct device *device, const struct verbs *verbs, unsigned number,
                         char *why)
{
    const struct memory *memory = &verbs->memory[number];

    device->kept[number] =
        ibv_reg_mr(device->pd, memory->base, memory->length, IBV_ACCESS_LOCAL_WRITE);
    return device->kept[number] != NULL ? 0 : cannot(errno, memory->length, why);
}

static void forget_kept(struct device *device, unsigned number)
{
    if (device->kept[number] != NULL)
        ibv_dereg_mr(device->kept[number]);
    device->kept[number] = NULL;
}

void rdma_device_end(struct device *device)
{
    for (unsigned i = 0; i < MEMORIES; i++)
        forget_kept(device, i);
    ibv_dealloc_pd(device->pd);
    free(device);
}

struct device *rdma_device_of(struct verbs *verbs, struct ibv_context *context, char *why)
{
    struct device *device;
    int error = 0;

    for (device = verbs->devices; device != NULL; device = device->next)
        if (device->verbs == context)
            return device;
    device = calloc(1, sizeof(*device));
    if (device == NULL)
        return NULL;
    device->verbs = context;
    device->pd = ibv_alloc_pd(context);
    if (device->pd == NULL) {
        snprintf(why, VERBS_WHY, "%.60s: no protection domain: %s",
                 ibv_get_device_name(context->device), strerror(errno));
        free(device);
        return NULL;
    }
    for (unsigned i = 0; i < verbs->memories && error == 0; i++)
        error = register_kept(device, verbs, i, why);
    if (error != 0) {
        rdma_device_end(device);
        return NULL;
    }
    device->next = verbs->devices;
    verbs->devices = device;
    return device;
}

/* Whether a process's options leave a device to it. */
static bool wanted(const struct verbs *verbs, const char *name)
{
    size_t length = strlen(name);

    if (verbs->options.devices[0] == '\0')
        return true;
    for (const char *at = verbs->options.devices; *at != '\0'; at += *at == ',') {
        size_t n = strcspn(at, ",");

        if (n == length && memcmp(at, name, n) == 0)
            return true;
        at += n;
    }
    return false;
}

int rdma_keep(struct verbs *verbs, void *memory, size_t length, char *why)
{
    struct ibv_context **list = rdma_get_devices(NULL);
    unsigned number = verbs->memories, devices = 0;
    int error = 0;

    if (list == NULL || number == MEMORIES) {
        snprintf(why, VERBS_WHY, "no RDMA device is here");
        return -ENODEV;
    }
    verbs->memory[number] = (struct memory){.base = memory, .length = length};
    for (unsigned i = 0; list[i] != NULL && error == 0; i++) {
        struct device *device;

        if (!wanted(verbs, ibv_get_device_name(list[i]->device)))
            continue;
        device = rdma_device_of(verbs, list[i], why);
        devices++;
        error = device != NULL ? register_kept(device, verbs, number, why) : -ENOMEM;
    }
    rdma_free_devices(list);
    if (devices == 0) {
        snprintf(why, VERBS_WHY, "no RDMA device is here%s%.100s",
                 verbs->options.devices[0] != '\0' ? " that is one of PORTUS_RDMA_DEV=" : "",
                 verbs->options.devices);
        return -ENODEV;
    }
    if (error != 0) {
        for (struct device *device = verbs->devices; device != NULL; device = device->next)
            forget_kept(device, number);
        return error;
    }
    verbs->memories++;
    return 0;
}

int rdma_kept(const struct verbs *verbs, const void *from, size_t length)
{
    const char *begin = from;

    for (unsigned i = 0; i < verbs->memories; i++) {
        const struct memory *memory = &verbs->memory[i];

        if (begin >= memory->base && length <= memory->length &&
            (size_t)(begin - memory->base) <= memory->length - length)
            return (int)i;
    }
    return -1;
}

static int open_to(struct verbs_link *link, void *memory, size_t length, int access,
                   struct verbs_source *out, char *why)
{
    struct exposed *exposed = NULL;
    int error = 0;

    if (link->state != VERBS_READY) {
        snprintf(why, VERBS_WHY, "%s", link->why);
        return -ENOTCONN;
    }
    for (unsigned i = 0; i < link->exposes && exposed == NULL; i++)
        if (link->exposed[i].mr[0] == NULL)
            exposed = &link->exposed[i];
    if (exposed == NULL && link->exposes == EXPOSED) {
        snprintf(why, VERBS_WHY, "%d ranges of memory are registered already", EXPOSED);
        return -ENOSPC;
    }
    if (exposed == NULL)
        exposed = &link->exposed[link->exposes++];
    *out = (struct verbs_source){.address = (uintptr_t)memory};
    for (unsigned i = 0; i < link->rails && error == 0; i++) {
        exposed->mr[i] = ibv_reg_mr(link->rail[i].pd, memory, length, access);
        if (exposed->mr[i] == NULL)
            error = cannot(errno, length, why);
        else
            out->key[i] = exposed->mr[i]->rkey;
    }
    if (error != 0)
        for (unsigned i = 0; i < link->rails && exposed->mr[i] != NULL; i++) {
            ibv_dereg_mr(exposed->mr[i]);
            exposed->mr[i] = NULL;
        }
    return error;
}

int rdma_expose(struct verbs_link *link, void *memory, size_t length, struct verbs_source *out,
                char *why)
{
    return open_to(link, memory, length, IBV_ACCESS_REMOTE_READ, out, why);
}

int rdma_lend(struct verbs_link *link, void *memory, size_t length, struct verbs_source *out,
              char *why)
{
    return open_to(link, memory, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, out,
                   why);
}

static void shut(struct verbs_link *link, struct exposed *exposed)
{
    for (unsigned i = 0; i < link->rails; i++) {
        if (exposed->mr[i] != NULL)
            ibv_dereg_mr(exposed->mr[i]);
        exposed->mr[i] = NULL;
    }
}

void rdma_withdraw(struct verbs_link *link, const struct verbs_source *source)
{
    for (unsigned i = 0; i < link->exposes; i++) {
        const struct ibv_mr *mr = link->exposed[i].mr[0];

        if (mr != NULL && (uintptr_t)mr->addr == source->address && mr->rkey == source->key[0])
            shut(link, &link->exposed[i]);
    }
}

void rdma_withdraw_all(struct verbs_link *link)
{
    for (unsigned i = 0; i < link->exposes; i++)
        shut(link, &link->exposed[i]);
    link->exposes = 0;
}
