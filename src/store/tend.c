/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tend.c -- portusd scrubs its pool when there is nothing else to do
 *
 * By itself slowly, a pass a day: what is read is worth little to anybody, and must not
 * cost others the memory's bandwidth. One that ends with its agents never gets far, so each
 * begins with another version. Asked for (portusctl scrub) it goes as fast as it was asked to.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "common/futex.h"
#include "common/log.h"
#include "portus/proto.h"
#include "store/scrub.h"
#include "store/state.h"

#define SECOND_NS 1000000000ull
#define FIRST_NS (5 * SECOND_NS) /* after the start */
#define EVERY_NS (86400 * SECOND_NS)
#define SLEEP_MS 1000
#define TURN_NS 10000000ull /* others wait so long, who want an answer at once */
#define PIECE (1ull << 20)

static struct {
    struct scrub *scrub; /* NULL: none is under way */
    bool asked;          /* by portusctl: wanted, or under way */
    uint64_t pace;       /* bytes a second; 0: as fast as it goes */
    uint64_t passes;     /* that are finished */
    int failed;          /* the last of them, before it was through */
    uint64_t stepped, next;
    struct scrub_report last; /* of the pass that was finished last */
} tend;

static void finish(struct store *store, int error)
{
    struct scrub_report *last = &tend.last;

    scrub_look(tend.scrub, last);
    scrub_end(tend.scrub);
    tend.scrub = NULL;
    tend.asked = false;
    tend.passes++;
    tend.next = portus_now() + EVERY_NS;
    tend.failed = error;
    if (error != 0)
        log_warn("the pool was scrubbed in part: %s", strerror(-error));
    else
        log_info("the pool was scrubbed: %llu copies were written anew, %llu versions repaired, "
                 "%llu are damaged",
                 (unsigned long long)last->copies, (unsigned long long)last->repaired,
                 (unsigned long long)last->damaged);
}

static int start(struct store *store, uint64_t now)
{
    struct pool_state state;
    uint64_t first = 0;
    int error;

    pool_look(store->pool, &state);
    if (!tend.asked && getrandom(&first, sizeof(first), 0) == (ssize_t)sizeof(first))
        first = first % (state.newest + 1);
    if (!tend.asked)
        tend.pace = store->scrub;
    error = scrub_begin(&tend.scrub, store->pool, first);
    if (error != 0) {
        tend.next = now + EVERY_NS;
        tend.passes += tend.asked; /* nobody waits for it in vain */
        tend.failed = error;
        tend.asked = false;
        memset(&tend.last, 0, sizeof(tend.last));
        log_warn("the pool cannot be scrubbed: %s", strerror(-error));
        return error;
    }
    tend.stepped = now - SECOND_NS / 10;
    return 0;
}

int store_tend(struct store *store)
{
    uint64_t now = portus_now(), bytes = UINT64_MAX;
    int more = 1;

    if (tend.next == 0)
        tend.next = now + FIRST_NS;
    if (tend.scrub == NULL &&
        ((!tend.asked && (store->scrub == 0 || now < tend.next)) || start(store, now) != 0))
        return SLEEP_MS;
    if (tend.pace != 0)
        bytes = (uint64_t)((double)tend.pace * (double)(now - tend.stepped) / (double)SECOND_NS);
    if (bytes > 0)
        tend.stepped = now;
    while (bytes > 0 && more == 1 && portus_now() - now < TURN_NS) {
        uint64_t piece = bytes < PIECE ? bytes : PIECE;

        /* A store of several users goes by no path of theirs. */
        more = scrub_step(tend.scrub, piece, store->shared ? NULL : original_read);
        bytes -= piece;
    }
    if (more != 1) {
        finish(store, more);
        return SLEEP_MS;
    }
    if (tend.pace == 0)
        return 0;
    return tend.pace > PIECE ? (int)(SLEEP_MS * PIECE / tend.pace) : SLEEP_MS;
}

bool store_tending(void)
{
    return tend.asked;
}

void store_tend_end(void)
{
    scrub_end(tend.scrub);
    tend.scrub = NULL;
}

int store_tend_hear(struct store *store, unsigned op, uint64_t size, unsigned flags,
                    uint64_t *answer)
{
    struct scrub_report report = tend.last;

    if (op == PORTUS_OP_STORE_SCRUB) {
        if (!tend.asked) {
            store_tend_end();
            tend.asked = true;
        }
        tend.pace = size;
        *answer = tend.passes + 1;
        return 0;
    }
    if (tend.scrub != NULL)
        scrub_look(tend.scrub, &report);
    switch (flags) {
    case PORTUS_SCRUB_PASSES:
        *answer = tend.passes;
        return 0;
    case PORTUS_SCRUB_DONE:
        *answer = report.done;
        return tend.scrub == NULL && !tend.asked ? tend.failed : 0;
    case PORTUS_SCRUB_TOTAL:
        *answer = report.total;
        return 0;
    case PORTUS_SCRUB_COPIES:
        *answer = report.copies;
        return 0;
    case PORTUS_SCRUB_REPAIRED:
        *answer = report.repaired;
        return 0;
    case PORTUS_SCRUB_DAMAGED:
        *answer = report.damaged;
        return 0;
    default:
        return -EINVAL;
    }
}
