// SPDX-License-Identifier: BSD-3-Clause
/*
 * doctor_rdma.c -- portusctl doctor: the RDMA devices of this machine, for rdma://
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "ctl/doctor.h"
#include "ctl/text.h"
#include "transport/verbs.h"

#define MEMLOCK (1ull << 30) /* less than a ring is likely to have */
#define DEPTH 4

static void look_at(struct doctor *doctor, const struct verbs_device *device)
{
    const char *advice = "";
    enum verdict verdict = WORKS;

    if (!device->active)
        advice = "its link is down: bring it up, or name another one in PORTUS_RDMA_DEV";
    else if (device->gid_index < 0)
        advice = "it has no address: give its network interface one";
    else if (device->dialled_depth < DEPTH)
        advice = "it answers few READs at a time: see its driver's parameters";
    else if (device->mtu < 1024)
        advice = "raise its interface's MTU, to 4200 where the net takes it";
    if (advice[0] != '\0')
        verdict = SLOWER;
    doctor_say(doctor, verdict, device->name, advice,
               "%s, %s, port %d, %.4g Gb/s, GID %d %s, MTU %u, answers %u READs at a time%s%s",
               device->active ? "active" : "not active", device->link_layer, device->port,
               device->gigabits, device->gid_index, device->gid_index < 0 ? "none" : device->gid,
               device->mtu, device->dialled_depth, device->firmware[0] != '\0' ? ", firmware " : "",
               device->firmware);
}

void doctor_rdma(struct doctor *doctor)
{
    const struct verbs_ops *ops;
    struct verbs_device device;
    struct rlimit limit;
    char why[VERBS_WHY] = "", bytes[TEXT_BYTES];
    unsigned count = 0;

    ops = verbs_load(why);
    if (ops == NULL) {
        doctor_say(doctor, SLOWER, "RDMA", "use tcp://, or install what is missing", "%s", why);
        return;
    }
    while (ops->describe(count, &device)) {
        look_at(doctor, &device);
        count++;
    }
    if (count == 0)
        doctor_say(
            doctor, SLOWER, "RDMA",
            "use tcp://, load the device's driver, or make a software device on an interface "
            "(rdma link add rxe0 type rxe netdev NAME)",
            "this machine has no RDMA device");
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < MEMLOCK)
        doctor_say(doctor, SLOWER, "RLIMIT_MEMLOCK",
                   "ulimit -l unlimited, or LimitMEMLOCK=infinity in the job's unit",
                   "%s may be registered with a device: a ring needs as much as a save has",
                   text_bytes(bytes, limit.rlim_cur));
}
