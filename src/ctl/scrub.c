/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scrub.c -- portusctl scrub: reads all of a pool, and repairs what can be repaired
 *
 * Where a portusd has the pool it does it, and is only asked and looked at from here;
 * where none has, it is done here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/futex.h"
#include "ctl/bar.h"
#include "ctl/ctl.h"
#include "ctl/text.h"
#include "ctl/vault.h"
#include "portus/proto.h"
#include "store/scrub.h"

#define LOOK_MS 200
#define PACE (256ull << 20)
#define TURN (1ull << 20)

static void sleep_ms(uint64_t milliseconds)
{
    struct timespec time = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000};

    nanosleep(&time, NULL);
}

static int tell(const struct scrub_report *report)
{
    char bytes[TEXT_BYTES];

    printf("%s read; %llu copies written anew, %llu versions repaired, %llu damaged\n",
           text_bytes(bytes, report->done), (unsigned long long)report->copies,
           (unsigned long long)report->repaired, (unsigned long long)report->damaged);
    if (report->damaged > 0)
        complain("scrub: %llu versions are damaged and cannot be repaired: portusctl versions "
                 "marks them d; rm, or pool check --remove-damaged, removes them",
                 (unsigned long long)report->damaged);
    return report->damaged > 0 ? CTL_FAILED : CTL_OK;
}

/* Here, at that pace. */
static int scrub_here(const struct options *options, uint64_t pace)
{
    struct scrub_report report;
    struct pool_state state;
    struct scrub *scrub = NULL;
    struct pool *pool;
    struct bar bar;
    uint64_t began;
    int more;

    if (pool_open(&pool, options->store, true) != 0)
        return CTL_FAILED;
    pool_look(pool, &state);
    bar_start(&bar);
    began = portus_now();
    more = scrub_begin(&scrub, pool, 0);
    if (more == 0)
        more = 1;
    while (more == 1) {
        uint64_t due;

        more = scrub_step(scrub, TURN, original_read);
        scrub_look(scrub, &report);
        bar_draw(&bar, report.done, report.total - report.done, NULL);
        due = (uint64_t)((double)report.done * 1000 / (double)pace);
        if (more == 1 && due > (portus_now() - began) / 1000000)
            sleep_ms(due - (portus_now() - began) / 1000000);
    }
    bar_clear(&bar);
    scrub_end(scrub);
    pool_close(pool);
    if (more < 0) {
        complain("scrub: %s: %s", options->store, strerror(-more));
        return CTL_FAILED;
    }
    report.copies += state.repaired; /* by the opening */
    report.damaged += state.damaged;
    return tell(&report);
}

static int number(const struct options *options, unsigned what, uint64_t *value)
{
    return vault_change(options, PORTUS_OP_STORE_SCRUBBED, 0, what, value);
}

/* Until portusd has finished that many passes. */
static int look_on(const struct options *options, uint64_t pass)
{
    struct scrub_report report = {0};
    uint64_t passes = 0;
    struct bar bar;
    int error = 0;

    bar_start(&bar);
    while (error == 0 && passes < pass) {
        error = number(options, PORTUS_SCRUB_DONE, &report.done);
        if (error == 0)
            error = number(options, PORTUS_SCRUB_TOTAL, &report.total);
        if (error == 0 && report.total >= report.done)
            bar_draw(&bar, report.done, report.total - report.done, NULL);
        if (error == 0)
            error = number(options, PORTUS_SCRUB_PASSES, &passes);
        if (error == 0 && passes < pass)
            sleep_ms(LOOK_MS);
    }
    bar_clear(&bar);
    if (error == 0)
        error = number(options, PORTUS_SCRUB_DONE, &report.done);
    if (error == 0)
        error = number(options, PORTUS_SCRUB_COPIES, &report.copies);
    if (error == 0)
        error = number(options, PORTUS_SCRUB_REPAIRED, &report.repaired);
    if (error == 0)
        error = number(options, PORTUS_SCRUB_DAMAGED, &report.damaged);
    if (error != 0) {
        complain("scrub: %s: %s", options->store,
                 error == -EOPNOTSUPP || error == -ECONNRESET
                     ? "its portusd has ended before the pass was over"
                     : strerror(-error));
        return CTL_FAILED;
    }
    return tell(&report);
}

int scrub_main(int argc, char **argv)
{
    struct options options;
    int operand =
        options_parse(&options, argc, argv, OPTION_STORE | OPTION_PACE | OPTION_BACKGROUND);
    uint64_t pace, pass = 0;
    int error;

    if (operand < 0)
        return CTL_USAGE;
    if (operand < argc) {
        complain("scrub: it takes no arguments: see portusctl help scrub");
        return CTL_USAGE;
    }
    if (options.store[0] == '\0') {
        complain("scrub: which pool? give --store POOL or set PORTUS_STORE");
        return CTL_USAGE;
    }
    pace = options.pace != 0 ? options.pace : PACE;
    error = vault_change(&options, PORTUS_OP_STORE_SCRUB, pace, 0, &pass);
    if (error == -EOPNOTSUPP && options.background) {
        complain("scrub: no portusd serves %s: without --background it is done here",
                 options.store);
        return CTL_FAILED;
    }
    if (error == -EOPNOTSUPP)
        return scrub_here(&options, pace);
    if (error != 0) {
        complain("scrub: %s: %s", options.store, strerror(-error));
        return CTL_FAILED;
    }
    if (options.background) {
        puts("portusd scrubs it; what it finds goes to its log");
        return CTL_OK;
    }
    return look_on(&options, pass);
}
