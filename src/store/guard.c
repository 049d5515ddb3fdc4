/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard.c -- returns from a SIGBUS to where the access began
 *
 * The signal mask is taken from the context of the signal, so that it need not be saved
 * for each access. The handler is set again whenever a pool is opened:
 * others in the process may have set theirs meanwhile.
 */
#include "store/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "common/log.h"

static __thread sigjmp_buf *volatile target;
static __thread uintptr_t address;
static struct sigaction before;

static void caught(int signal, siginfo_t *info, void *context)
{
    sigjmp_buf *jump = target;

    /* BUS_MCEERR_AO tells of a bad page that nobody is reading just now. */
    if (jump != NULL && info->si_code != BUS_MCEERR_AO) {
        target = NULL;
        address = (uintptr_t)info->si_addr;
        pthread_sigmask(SIG_SETMASK, &((ucontext_t *)context)->uc_sigmask, NULL);
        siglongjmp(*jump, 1);
    }
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        if (info->si_code != BUS_MCEERR_AO)
            sigaction(SIGBUS, &before, NULL); /* the access is repeated, and ends the process */
    } else {
        before.sa_handler(signal);
    }
}

int guard_install(void)
{
    struct sigaction action, now;

    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == caught)
        return 0;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = caught;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, &before) != 0) {
        int error = errno;

        log_error("sigaction(SIGBUS): %s: the pool is not opened", strerror(error));
        return -error;
    }
    return 0;
}

void guard_enter(sigjmp_buf *here)
{
    target = here;
    atomic_signal_fence(memory_order_seq_cst);
}

void guard_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    target = NULL;
}

uintptr_t guard_address(void)
{
    return address;
}
