/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_pin.c -- the ring, pinned for devices
 *
 * A device copies into pinned memory by itself; into other memory the driver copies once more,
 * by the CPU. Pinning takes long, so it is done once the ring has grown to what a save needs,
 * at a call of CUDA's between saves. All of it is one registration, as a copy may not cross from
 * one into another.
 *
 * A pinned page outlives the hole that is punched in its file. So the session says how much is
 * pinned before it is, and the agent makes no ring smaller that is; it asks for it (`unpin`),
 * and the next call of CUDA's finds that.
 *
 * Of two threads one pins, the other copies as plainly: nobody waits.
 */
#include "cuda_pin.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "file.h"
#include "promise.h"
#include "shim.h"

#define CU_MEMHOSTREGISTER_PORTABLE 1u
#define REFUSED_NS 60000000000ull

static _Atomic uint32_t copies; /* under way */
static _Atomic bool busy;       /* somebody pins: no copy begins */
static _Atomic uint64_t pinned; /* bytes of the ring's data */
static uint32_t opened;         /* the writer whose ring it is */
static uint64_t refused;        /* when it failed, ns */

/* A ring that was left pinned. */
static struct {
    void *ring, *data;
    size_t bytes;
} left;

/* Of this writer's ring. */
static uint64_t pinned_now(void)
{
    return opened == shim.writer.opened ? atomic_load(&pinned) : 0;
}

bool cuda_pin_begin(uint64_t *bytes)
{
    atomic_fetch_add(&copies, 1);
    if (atomic_load(&busy)) {
        atomic_fetch_sub(&copies, 1);
        return false;
    }
    *bytes = pinned_now();
    return true;
}

void cuda_pin_end(void)
{
    atomic_fetch_sub(&copies, 1);
}

void cuda_pin_lost(void)
{
    atomic_store(&pinned, 0);
    promise_pins_ours(0);
    atomic_store(&shim.writer.session->pinned, 0);
}

/* What may be locked in memory; root may all. */
static uint64_t limit(void)
{
    struct rlimit memory;

    if (geteuid() == 0 || getrlimit(RLIMIT_MEMLOCK, &memory) < 0 ||
        memory.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return memory.rlim_cur;
}

/* How much is to be pinned now. */
static uint64_t wished(struct portus_writer *writer)
{
    uint64_t now = pinned_now();
    uint64_t ring = atomic_load(&writer->session->ring_bytes);

    if (atomic_load(&writer->gone) || atomic_load(&writer->session->unpin) != 0 ||
        atomic_load(&writer->link.control->passive) != PORTUS_CAPTURING)
        return 0;
    if (ring == now || ring < atomic_load(&writer->session->ring_goal) || files_saving() ||
        (refused != 0 && portus_now() - refused < REFUSED_NS))
        return now;
    return ring > limit() ? 0 : ring;
}

/* Said before it is, so that the ring does not become smaller meanwhile. */
static bool announce(struct portus_writer *writer, uint64_t bytes)
{
    atomic_store(&writer->session->pinned, bytes);
    if (!(atomic_load(&writer->session->head) & PORTUS_STOPPED) &&
        atomic_load(&writer->session->ring_bytes) == bytes)
        return true;
    atomic_store(&writer->session->pinned, 0);
    return false;
}

static void change(const struct cuda_pin_driver *driver, uint64_t wish)
{
    struct portus_writer *writer = &shim.writer;
    uint64_t before;

    if (left.ring != NULL) {
        driver->unpin(left.data);
        promise_pins_ours(0);
        syscall(SYS_munmap, left.ring, left.bytes);
        left.ring = NULL;
    }
    if (opened != writer->opened) {
        opened = writer->opened;
        atomic_store(&pinned, 0);
    }
    if (atomic_load(&pinned) != 0 && wish != atomic_load(&pinned)) {
        driver->unpin(writer->data);
        cuda_pin_lost();
    }
    if (wish == 0 || wish == atomic_load(&pinned) || !announce(writer, wish))
        return;
    before = promise_pins();
    if (driver->pin(writer->data, wish, CU_MEMHOSTREGISTER_PORTABLE) == 0) {
        atomic_store(&pinned, wish);
        promise_pins_ours(promise_pins() - before == wish ? wish : 0);
        log_debug("%llu MiB of the ring are pinned", (unsigned long long)(wish >> 20));
    } else {
        atomic_store(&writer->session->pinned, 0);
        refused = portus_now();
        log_debug("the ring cannot be pinned: the driver copies once more");
    }
}

bool cuda_pin_due(void)
{
    return left.ring != NULL || wished(&shim.writer) != pinned_now();
}

void cuda_pin_turn(const struct cuda_pin_driver *driver)
{
    if (atomic_exchange(&busy, true))
        return;
    if (atomic_load(&copies) == 0)
        change(driver, wished(&shim.writer));
    atomic_store(&busy, false);
}

void cuda_pin_leave(void)
{
    if (pinned_now() == 0)
        return;
    if (left.ring == NULL) {
        left.ring = shim.writer.link.ring;
        left.data = shim.writer.data;
        left.bytes = shim.writer.link.ring_map;
    }
    shim.writer.link.ring = NULL; /* not unmapped with the link */
    atomic_store(&pinned, 0);
    opened = 0;
}

void cuda_pin_forget(void)
{
    atomic_store(&copies, 0);
    atomic_store(&busy, false);
    atomic_store(&pinned, 0);
    left.ring = NULL;
    promise_pins_ours(0);
    opened = 0;
}
