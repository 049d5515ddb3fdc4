/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watcher.c -- the thread that is there while files of this process are live
 *
 * It closes our copies of descriptions whose drain is through, maps ring pages that
 * the agent has populated (so that the next save does not pay for it), and finishes
 * the agent's work if the agent dies while the program only computes. It blocks all
 * signals, and ends with the last live file: many programs warn, or do worse, when
 * a process with threads forks.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/futex.h"
#include "promise.h"
#include "shim.h"
#include "versions.h"

#define STACK (256u << 10)
#define PAUSE_MS 100
#define LINGER_NS 5000000000ull /* for a ring that is still growing */
#define REST_NS 1000000000ull   /* for the program to let go of what it has saved */

static void *watch(void *nothing)
{
    struct portus_writer *writer = &shim.writer;
    struct portus_patience patience = {0};
    uint64_t idle_since = 0;
    bool rested = false; /* what this save left in the ring is through with */

    prctl(PR_SET_NAME, "portus");
    for (;;) {
        uint32_t finished = atomic_load(&writer->link.control->finished);
        bool gone = portus_writer_check(writer);
        bool warm = gone || portus_writer_warm(writer);
        unsigned live = portus_writer_reap(writer);

        if (live > 0 && !gone)
            portus_link_prod(&writer->link, &patience);
        if (live > 0)
            rested = false;
        if (live > 0)
            idle_since = 0;
        else if (idle_since == 0)
            idle_since = portus_now();
        if (live == 0 && !rested)
            rested = promise_rest(gone || portus_now() - idle_since > REST_NS);
        if (live == 0 && ((rested && (warm || portus_now() - idle_since > LINGER_NS)) ||
                          atomic_load(&shim.unwatched))) {
            /* One that is engaged from here on starts another thread, or keeps this one. */
            bool last;
            shim_keep(); /* it could be closed, now that nobody watches it */
            atomic_store(&shim.watching, 0);
            last =
                gone || portus_writer_reap(writer) == 0 || atomic_exchange(&shim.watching, 1) != 0;
            shim_done();
            if (last)
                return nothing;
        }
        if (!gone && !warm &&
            atomic_load(&writer->warmed) < atomic_load(&writer->session->ring_bytes))
            continue;
        portus_futex_wait(&writer->link.control->finished, finished, PAUSE_MS);
    }
}

void shim_watch(void)
{
    /* Not glibc's own, 32 and 33: setuid waits for all threads to take theirs. */
    unsigned long all = ~(3ul << 31), before;
    pthread_attr_t attributes;
    pthread_t thread;

    if (pthread_create == NULL || pthread_attr_setstacksize == NULL ||
        atomic_exchange(&shim.watching, 1) != 0)
        return;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* Without it the copies are closed by the next call that looks: later, not never. */
    if (pthread_create(&thread, &attributes, watch, NULL) != 0)
        atomic_store(&shim.watching, 0);
    pthread_attr_destroy(&attributes);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}
