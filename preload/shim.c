/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shim.c -- this process's shim: its configuration, its agent, its birth and death
 *
 * Nothing runs before the program does: all is set up by the first call that needs
 * it. At the end the program waits for its bytes, whichever way it ends.
 */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/descriptor.h"
#include "common/left.h"
#include "common/log.h"
#include "common/trace.h"
#include "cuda_pin.h"
#include "fdtab.h"
#include "file.h"
#include "lent.h"
#include "origin.h"
#include "promise.h"
#include "real.h"
#include "restore.h"
#include "summary.h"
#include "versions.h"

#define WATCHER_MS 200
#define GIVE_UP_TRIES 20
#define LEAVING_MS 200
#define SETUP_MS 50
#define TELLS_SECONDS 3           /* of waiting at the end, at least */
#define REFUSED_NS 60000000000ull /* then an agent is tried again */
#define GLIBC_SIGNALS (3ul << 31) /* 32 and 33: cancellation, setuid of all threads */

struct shim shim;

static _Atomic long setting_up; /* the thread that is at it */
static _Atomic uint32_t ready;  /* 0 no, 1 somebody is at it, 2 on, 3 off */
static _Atomic bool concerned;  /* not only by what others save: there is a summary */

struct guard shim_guard(void)
{
    struct guard guard = {.error = errno};
    /* All but what a fault raises: blocking those would turn a handler into a kill. */
    unsigned long all = ~((1ul << (SIGSEGV - 1)) | (1ul << (SIGBUS - 1)) | (1ul << (SIGFPE - 1)) |
                          (1ul << (SIGILL - 1)) | (1ul << (SIGTRAP - 1)) | (1ul << (SIGABRT - 1)) |
                          (1ul << (SIGSYS - 1)) | GLIBC_SIGNALS);

    if (pthread_setcancelstate != NULL)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard.cancel);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &guard.mask, sizeof(all));
    return guard;
}

void shim_unguard(const struct guard *guard)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &guard->mask, NULL, sizeof(guard->mask));
    if (pthread_setcancelstate != NULL)
        pthread_setcancelstate(guard->cancel, NULL);
    errno = guard->error;
}

/* The program must not close our descriptors, nor put one of its own in their place. */
static void own(int fd, bool is)
{
    if (is)
        fdtab_own(fd);
    else
        fdtab_disown(fd);
}

/* --- fork: the child is a process of its own, without our descriptors --- */

static struct guard forking; /* with shim.lock held */
static _Atomic bool forked_from;

static void before_fork(void)
{
    struct guard guard;

    if (!shim_own())
        return;
    shim_share_open();
    guard = shim_guard();
    portus_lock(&shim.lock);
    promise_before_fork();
    portus_lock(&shim.writer.lock);
    files_lock();
    portus_lock(&portus_descriptors);
    forking = guard;
    atomic_store(&forked_from, true);
}

static void after_fork_parent(void)
{
    struct guard guard = forking;

    if (!shim_own())
        return;
    atomic_store(&forked_from, false);
    portus_unlock(&portus_descriptors);
    files_unlock();
    portus_unlock(&shim.writer.lock);
    promise_after_fork();
    portus_unlock(&shim.lock);
    shim_unguard(&guard);
}

static void after_fork_child(void)
{
    if (!atomic_load(&forked_from)) /* the parent was no process of ours: nothing is locked */
        return;
    portus_unlock(&portus_descriptors);
    files_unlock();
    memset(&shim.lock, 0, sizeof(shim.lock));
    memset(&shim.writer.lock, 0, sizeof(shim.writer.lock));
    if (atomic_load(&shim.connected))
        portus_writer_close(&shim.writer);
    if (atomic_load(&shim.looking))
        portus_link_close(&shim.look);
    atomic_store(&shim.connected, false);
    atomic_store(&shim.looking, false);
    atomic_store(&shim.control, NULL);
    atomic_store(&shim.watching, 0);
    atomic_store(&shim.users, 0);
    atomic_store(&shim.writer.lost, 0); /* the parent is told */
    promise_forget();
    cuda_pin_forget();
    origin_forget();
    files_forget();
    summary_forget();
    restore_forget();
    lent_forget();
    shim.pid = getpid();
    atomic_store(&forked_from, false);
    shim_unguard(&forking);
}

/* What pthread_atfork is in glibc; weak, so that a program of another libc can be started. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

bool shim_set_up(void)
{
    uint32_t no = 0;
    int saved = errno;

    if (atomic_load(&ready) >= 2)
        return atomic_load(&ready) == 2;
    if (!atomic_compare_exchange_strong(&ready, &no, 1)) {
        /* A call of our own set-up; or of a thread beside it, which waits (not for ever:
         * in a forked child nobody may be at it any more). */
        for (unsigned tries = 0; tries < SETUP_MS && atomic_load(&ready) == 1; tries++)
            if (atomic_load(&setting_up) == syscall(SYS_gettid))
                return false;
            else
                poll(NULL, 0, 1);
        errno = saved;
        return atomic_load(&ready) == 2;
    }
    atomic_store(&setting_up, syscall(SYS_gettid));
    shim.pid = getpid();
    for (unsigned i = 0; i < PORTUS_FILES; i++)
        shim.writer.keep[i] = -1;
    portus_descriptor_told = own;
    portus_env_load(&shim.env);
    if (&__register_atfork == NULL) /* another libc: nothing of it is known */
        shim.env.mode = PORTUS_OFF;
    portus_log_setup((enum portus_level)shim.env.log_level,
                     shim.env.log_file[0] != '\0' ? shim.env.log_file : NULL, "portus: ");
    portus_log_json(shim.env.log_json);
    if (shim.env.mode != PORTUS_OFF)
        portus_trace_setup(shim.env.trace, program_invocation_short_name);
    if (shim.env.mode != PORTUS_OFF)
        __register_atfork(before_fork, after_fork_parent, after_fork_child, __dso_handle);
    atomic_store(&ready, shim.env.mode == PORTUS_OFF ? 3 : 2);
    errno = saved;
    return shim.env.mode != PORTUS_OFF;
}

bool shim_on(void)
{
    bool on = shim_set_up();

    if (on && !atomic_load_explicit(&concerned, memory_order_relaxed))
        atomic_store(&concerned, true);
    return on;
}

bool shim_known(void)
{
    return atomic_load(&ready) >= 2;
}

bool shim_own(void)
{
    return atomic_load(&ready) == 2 && shim.pid == getpid();
}

const char *shim_agent(void)
{
    static char path[PORTUS_ENV_TEXT];
    int (*look)(const void *, Dl_info *) = dladdr;
    Dl_info info;
    const char *slash;

    if (shim.env.agent[0] != '\0')
        return shim.env.agent;
    if (path[0] != '\0')
        return path;
    if (look == NULL)
        look = (int (*)(const void *, Dl_info *))(uintptr_t)real_loader("dladdr");
    if (look == NULL || look((void *)shim_agent, &info) == 0 || info.dli_fname == NULL)
        return "portus-agent";
    slash = strrchr(info.dli_fname, '/');
    if (slash == NULL)
        snprintf(path, sizeof(path), "./portus-agent");
    else
        snprintf(path, sizeof(path), "%.*s/portus-agent", (int)(slash - info.dli_fname),
                 info.dli_fname);
    return path;
}

bool shim_use(void)
{
    atomic_fetch_add(&shim.users, 1);
    if (atomic_load(&shim.connected))
        return true;
    shim_done();
    return false;
}

void shim_keep(void)
{
    atomic_fetch_add(&shim.users, 1);
}

void shim_done(void)
{
    atomic_fetch_sub(&shim.users, 1);
}

/* Whether somebody needs the writer, or will when the drain is through. */
static bool needed(void)
{
    return portus_writer_reap(&shim.writer) > 0 || portus_writer_busy(&shim.writer) ||
           atomic_load(&shim.watching) != 0;
}

/* Closes a writer that is not needed, with the lock held. False: it is. */
static bool close_writer(void)
{
    if (portus_writer_reap(&shim.writer) > 0 || portus_writer_busy(&shim.writer))
        return false;
    for (unsigned tries = 0; atomic_load(&shim.watching) != 0; tries++) {
        if (tries == WATCHER_MS)
            return false;
        poll(NULL, 0, 1); /* it ends soon: it has nothing left to watch */
    }
    atomic_store(&shim.connected, false);
    for (unsigned tries = 0; atomic_load(&shim.users) != 0 && tries < WATCHER_MS; tries++)
        poll(NULL, 0, 1);
    if (atomic_load(&shim.users) != 0 || needed()) { /* one has engaged a file meanwhile */
        atomic_store(&shim.connected, true);
        return false;
    }
    atomic_store(&shim.control, NULL);
    promise_leave();
    cuda_pin_leave();
    portus_writer_close(&shim.writer);
    return true;
}

bool shim_give_up(void)
{
    bool gone = false;

    for (unsigned tries = 0; tries < GIVE_UP_TRIES && !gone; tries++) {
        struct guard guard;

        int error;

        atomic_store(&shim.unwatched, true);
        lent_end_all();
        error = shim_release_all();
        if (error != 0)
            portus_writer_untold(&shim.writer, error); /* for a call that can say so */
        guard = shim_guard();
        portus_lock(&shim.lock);
        if (shim_control() != NULL)
            portus_futex_advance(&shim_control()->finished); /* the watcher looks */
        shim_look_end();
        gone = !atomic_load(&shim.connected) || close_writer();
        atomic_store(&shim.unwatched, false);
        portus_unlock(&shim.lock);
        shim_unguard(&guard);
    }
    return gone;
}

/* A writer whose agent is gone has done what was to do: the next save finds a new agent. */
static void close_gone(void)
{
    if (!atomic_load(&shim.connected))
        return;
    for (unsigned tries = 0; !portus_writer_check(&shim.writer); tries++) {
        if (tries == LEAVING_MS || !portus_link_leaving(&shim.writer.link))
            return;
        poll(NULL, 0, 1); /* else this save would have neither agent */
    }
    close_writer();
}

struct portus_writer *shim_writer(const char **why)
{
    struct portus_link_options options = {.role = PORTUS_ROLE_CLIENT,
                                          .job = shim.env.job,
                                          .ring_size = shim.env.ring_size,
                                          .agent = shim_agent(),
                                          .store = shim.env.store,
                                          .ends_stopped = true};
    struct portus_writer *writer = NULL;
    int error;

    *why = "the program is ending";
    if (atomic_load(&shim.ending))
        return NULL;
    portus_lock(&shim.lock);
    close_gone();
    if (atomic_load(&shim.connected)) {
        *why = "the agent is gone: a new one serves the next save";
        if (!atomic_load(&shim.writer.gone)) {
            writer = &shim.writer;
            shim_keep();
        }
        goto unlock;
    }
    if (portus_now() < atomic_load(&shim.refused_until)) {
        *why = "there was no agent before";
        goto unlock;
    }
    error = portus_writer_open(&shim.writer, &options, why);
    if (error != 0) {
        atomic_store(&shim.refused_until, portus_now() + REFUSED_NS);
        goto unlock;
    }
    atomic_store(&shim.control, shim.writer.link.control);
    atomic_store(&shim.connected, true);
    summary_share(shim.writer.link.control);
    writer = &shim.writer;
    shim_keep();
unlock:
    portus_unlock(&shim.lock);
    return writer;
}

int shim_release_all(void)
{
    struct guard guard;
    int error;

    if (!shim_own())
        return 0;
    if (!shim_use())
        return shim_untold();
    guard = shim_guard();
    files_release(true);
    error = portus_writer_error(&shim.writer);
    shim_unguard(&guard);
    shim_done();
    return error;
}

int shim_release_queued(void)
{
    int error = shim_release_all();

    promise_settle();
    return error;
}

void shim_release_open(void)
{
    struct guard guard;

    lent_end_all();
    if (!shim_own() || !shim_use())
        return;
    guard = shim_guard();
    files_release(false);
    shim_unguard(&guard);
    shim_done();
}

void shim_share_open(void)
{
    if (!shim_own())
        return;
    shim_release_open();
    promise_settle();
    files_share(); /* candidates have two writers from now on */
}

/* A program that does not end is a riddle, and may be killed for it. */
static void say_left(void)
{
    char text[PORTUS_LEFT_TEXT];

    if (shim_use()) {
        if (!atomic_load(&shim.writer.gone) &&
            portus_left(shim.writer.link.control, text).seconds >= TELLS_SECONDS)
            log_warn("the program ends when %s are in their files", text);
        shim_done();
    }
}

int shim_end(int status)
{
    if (!shim_own())
        return status;
    atomic_store(&shim.ending, true);
    say_left();
    if (shim_release_all() != 0 && status == 0) {
        log_error("the program was not told: it ends with exit status %d", EX_IOERR);
        status = EX_IOERR;
    }
    if (atomic_load(&concerned))
        summary_print();
    return status;
}

/* What is behind it at the end, for whom ends with _exit only: the streams. */
__attribute__((destructor)) static void at_exit(void)
{
    if (shim_end(0) != 0) {
        real_fflush(NULL);
        real__exit(EX_IOERR);
    }
}
