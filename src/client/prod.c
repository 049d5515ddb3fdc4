/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prod.c -- an agent that others wait for must show a sign of life
 *
 * The worker advances a counter at each turn of its loop, and each wait rings its
 * bell. If the counter stands still the worker is stopped, waits for a disk, or
 * hangs. One that is stopped would hold up everybody who opens its files, and might
 * write old bytes over new ones when it is continued: it is killed, by its keeper,
 * and its clients write the rest themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/link.h"
#include "common/futex.h"
#include "common/log.h"

#define SUSPECT_NS 2000000000ull  /* no sign of life: look at the worker's state */
#define GIVE_UP_NS 30000000000ull /* no sign of life, and not waiting for a disk */

/* The state letter of a process (proc(5) stat), 0 if there is none, '?' if that cannot be seen. */
char portus_process_state(uint32_t pid)
{
    char path[32], text[512], *end;
    long length;
    int fd;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT)
        return 0;
    length = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof(text) - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    if (length <= 0) /* too many descriptors, say */
        return syscall(SYS_kill, pid, 0) < 0 && errno == ESRCH ? 0 : '?';
    text[length] = '\0';
    end = strrchr(text, ')'); /* the name before may hold anything */
    return end != NULL && end[1] == ' ' ? end[2] : 0;
}

static bool is_stopped(char state)
{
    return state == 'T' || state == 't';
}

static void kill_agent(const struct portus_link *link, const char *reason)
{
    log_warn("the agent %s: it is killed, its clients write the rest themselves", reason);
    syscall(SYS_pidfd_send_signal, link->keeper, SIGKILL, NULL, 0);
}

/* The worker's process id is not known yet: it is the keeper's only child. */
static uint32_t child_of(uint32_t keeper)
{
    char path[48], text[16];
    long length;
    int fd;

    snprintf(path, sizeof(path), "/proc/%u/task/%u/children", keeper, keeper);
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    length = syscall(SYS_read, fd, text, sizeof(text) - 1);
    syscall(SYS_close, fd);
    text[length > 0 ? length : 0] = '\0';
    return (uint32_t)strtoul(text, NULL, 10);
}

bool portus_link_end_stopped(const struct portus_link *link)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    uint32_t keeper, worker;
    bool is;

    if (getsockopt(link->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return false;
    keeper = (uint32_t)peer.pid;
    worker = child_of(keeper);
    is = is_stopped(portus_process_state(keeper)) ||
         (worker != 0 && is_stopped(portus_process_state(worker)));
    if (is)
        kill_agent(link, "is stopped");
    return is;
}

void portus_link_prod(const struct portus_link *link, struct portus_patience *patience)
{
    uint32_t beat = atomic_load(&link->control->beat);
    uint64_t now = portus_now();
    int saved = errno;
    char state;

    if (patience->since == 0 || beat != patience->beat) {
        patience->since = now;
        patience->beat = beat;
    } else if (now - patience->since > SUSPECT_NS) {
        state = portus_process_state(atomic_load(&link->control->worker));
        if (is_stopped(state))
            kill_agent(link, "is stopped");
        else if (now - patience->since > GIVE_UP_NS && state != 'D')
            kill_agent(link, "does not answer");
    }
    portus_link_ring(link);
    errno = saved;
}
