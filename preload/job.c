/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c -- what this process waits for, or asks, of its job
 *
 * The job's agent knows of the files that all its processes save. One that saves itself asks by
 * its writer, any other one by a connection that only looks.
 *
 * Not here: a process's own files (file.c), and its writer (shim.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client/barrier.h"
#include "common/trace.h"
#include "file.h"
#include "policy.h"
#include "shim.h"
#include "summary.h"

#define EXECUTABLE_NS 5000000000ull
#define TRACED_NS 20000        /* of a wait, at least */
#define SILENT_NS 100000000ull /* of looking for one that does not answer: not too often */
#define SILENT_PART 20
#define LOOKED_NS 1000000ull /* in which no agent begins, and captures a file to its end */

void shim_look_end(void)
{
    if (!atomic_load(&shim.looking))
        return;
    if (!atomic_load(&shim.connected))
        atomic_store(&shim.control, NULL);
    atomic_store(&shim.looking, false);
    portus_link_close(&shim.look);
}

/* Looks whether the job has an agent, for a process that never engaged a file. */
static bool look(void)
{
    static uint64_t not_before;
    struct portus_link_options options = {
        .role = PORTUS_ROLE_LOOK, .job = shim.env.job, .ends_stopped = true};
    uint64_t began = portus_now(), waited;

    if (atomic_load(&shim.looking)) {
        if (!portus_link_dead(&shim.look))
            return true;
        shim_look_end();
    }
    if (began < not_before)
        return false;
    if (portus_link_open(&shim.look, &options, NULL) != 0) {
        waited = portus_now() - began;
        if (waited > SILENT_NS)
            not_before = portus_now() + SILENT_PART * waited;
        return false;
    }
    atomic_store(&shim.control, shim.look.control);
    atomic_store(&shim.looking, true);
    return true;
}

void shim_look(void)
{
    static _Atomic uint64_t looked;
    struct guard guard;

    if (atomic_load(&shim.connected) || !shim_set_up() ||
        portus_now() - atomic_load(&looked) < LOOKED_NS || !shim_own() ||
        shim.env.mode == PORTUS_REPORT)
        return;
    guard = shim_guard();
    portus_lock(&shim.lock);
    if (!atomic_load(&shim.connected))
        look();
    portus_unlock(&shim.lock);
    atomic_store(&looked, portus_now());
    shim_unguard(&guard);
}

int shim_untold(void)
{
    return -(int)atomic_exchange(&shim.writer.lost, 0);
}

void shim_trace_wait(const char *call, uint64_t began)
{
    if (began != 0 && portus_now() - began >= TRACED_NS)
        portus_trace(&(struct portus_event){PORTUS_TRACE_SPAN, "wait", call, .began = began}, "%s",
                     "");
}

int shim_barrier_of(const char *call)
{
    return shim_barrier_at(call, -1, NULL);
}

int shim_barrier_at(const char *call, int at, const char *path)
{
    int (*wait)(const struct portus_link *, struct portus_writer *, struct portus_place,
                uint64_t *) =
        shim.env.order == PORTUS_ORDER_RELAXED ? portus_barrier_kept : portus_barrier;
    uint64_t waited = 0, began = portus_trace_on() ? portus_now() : 0;
    struct portus_place place = {at, path};
    struct guard guard;
    int error = 0, saved = errno;

    if (!shim_on() || !shim_own() || shim_unordered() || shim.env.mode == PORTUS_REPORT)
        return 0;
    guard = shim_guard();
    if (shim_use()) {
        /* Taken over: all of ours is in its files, or an error says that it is not. */
        error = portus_writer_check(&shim.writer)
                    ? portus_writer_error(&shim.writer)
                    : wait(&shim.writer.link, &shim.writer, place, &waited);
        shim_done();
    } else {
        error = shim_untold();
        portus_lock(&shim.lock);
        if (error == 0 && !atomic_load(&shim.connected) && look())
            error = wait(&shim.look, NULL, place, &waited);
        portus_unlock(&shim.lock);
    }
    shim_unguard(&guard);
    summary_waited(waited);
    if (waited > 0 && call != NULL)
        shim_trace_wait(call, began);
    errno = saved;
    return error;
}

void shim_barrier_untold_at(const char *call, int at, const char *path)
{
    int error = shim_barrier_at(call, at, path);

    if (error != 0)
        portus_writer_untold(&shim.writer, error);
}

void shim_clear(void)
{
    struct guard guard;

    if (!atomic_load(&shim.connected) || !shim_own())
        return;
    guard = shim_guard();
    if (shim_use()) {
        if (!atomic_load(&shim.writer.gone))
            portus_writer_clear(&shim.writer);
        shim_done();
    }
    shim_unguard(&guard);
}

void shim_renamed(int at, const char *path)
{
    struct guard guard;
    int fd, saved = errno;

    if (!shim_own() || shim_control() == NULL) /* nobody has an agent: nothing is kept */
        return;
    guard = shim_guard();
    fd = (int)syscall(SYS_openat, at, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    /* Of others nothing is kept; and the store would wait for a server that does not answer. */
    if (fd >= 0 && !policy_local(fd)) {
        syscall(SYS_close, fd);
        fd = -1;
    }
    if (fd >= 0 && shim_use()) {
        portus_link_send(&shim.writer.link, PORTUS_OP_RENAMED, 0, 0, fd);
        shim_done();
    } else if (fd >= 0) {
        portus_lock(&shim.lock);
        if (atomic_load(&shim.looking))
            portus_link_send(&shim.look, PORTUS_OP_RENAMED, 0, 0, fd);
        portus_unlock(&shim.lock);
    }
    if (fd >= 0)
        syscall(SYS_close, fd);
    shim_unguard(&guard);
    errno = saved;
}

bool shim_interrupted(int at, const char *path)
{
    int saved = errno, fd;
    struct statx status;
    bool again;

    shim_look();
    if (shim_control() == NULL || !shim_own())
        return false;
    /* It may be whole by now, so it is not asked whether it is live. */
    fd = (int)syscall(SYS_openat, at, path, O_PATH | O_CLOEXEC);
    again = fd >= 0 && syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &status) == 0 &&
            S_ISREG(status.stx_mode) && policy_local(fd);
    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = saved;
    return again;
}

void shim_wait_executable(int at, const char *path, int flags)
{
    const struct portus_control *control;
    struct statx status;
    int saved = errno;
    uint64_t began = portus_now();

    shim_look();
    control = shim_control();
    if (control != NULL && syscall(SYS_statx, at, path, flags, STATX_INO, &status) == 0)
        while (live_known(makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino) &&
               portus_now() - began < EXECUTABLE_NS)
            poll(NULL, 0, 1);
    errno = saved;
}
