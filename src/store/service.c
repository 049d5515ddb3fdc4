/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * service.c -- what a service manager says to portusd, and hears from it
 *
 * The protocols of sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3) and sd-daemon(3)
 * are stable and documented for being written anew, a few lines each; libsystemd would bring
 * compressors and ciphers into a process that reads what strangers send.
 */
#include "store/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/log.h"

#define FIRST_FD 3

static struct {
    int socket; /* 0: nobody listens */
    struct sockaddr_un address;
    socklen_t length;
    uint64_t every, last; /* ns */
} service;

/* Whether a variable names this process, or nobody. */
static bool is_for_us(const char *variable)
{
    const char *pid = getenv(variable);

    return pid == NULL || strtoul(pid, NULL, 10) == (unsigned long)getpid();
}

static int take_listener(int *listener)
{
    const char *count = getenv("LISTEN_FDS");
    int type = 0, listens = 0;
    socklen_t size = sizeof(type);
    struct sockaddr_un address;
    socklen_t length = sizeof(address);

    if (count == NULL || getenv("LISTEN_PID") == NULL || !is_for_us("LISTEN_PID"))
        return 0;
    if (strcmp(count, "1") != 0) {
        log_error("LISTEN_FDS=%s: one socket is wanted", count);
        return -EINVAL;
    }
    if (getsockopt(FIRST_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
        getsockopt(FIRST_FD, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 ||
        getsockname(FIRST_FD, (struct sockaddr *)&address, &length) < 0 || type != SOCK_SEQPACKET ||
        !listens || address.sun_family != AF_UNIX) {
        log_error("descriptor %d, passed by the service manager, is no unix socket that listens "
                  "for packets (ListenSequentialPacket=)",
                  FIRST_FD);
        return -EINVAL;
    }
    fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC);
    fcntl(FIRST_FD, F_SETFL, O_NONBLOCK);
    *listener = FIRST_FD;
    return 0;
}

static void find_notify(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path != NULL ? strlen(path) : 0;

    if (length < 2 || length >= sizeof(service.address.sun_path) ||
        (path[0] != '/' && path[0] != '@'))
        return;
    service.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (service.socket < 0) {
        service.socket = 0;
        return;
    }
    service.address.sun_family = AF_UNIX;
    memcpy(service.address.sun_path, path, length);
    if (path[0] == '@')
        service.address.sun_path[0] = '\0';
    service.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

int service_begin(int *listener)
{
    const char *period = getenv("WATCHDOG_USEC");
    int error = take_listener(listener);

    find_notify();
    if (period != NULL && is_for_us("WATCHDOG_PID"))
        service.every = strtoull(period, NULL, 10) * 1000 / 3;
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return error;
}

bool service_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat status;

    return stream != NULL && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

void service_tell(const char *format, ...)
{
    char text[512];
    va_list arguments;
    int length;

    if (service.socket == 0)
        return;
    va_start(arguments, format);
    length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < sizeof(text))
        sendto(service.socket, text, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT,
               (struct sockaddr *)&service.address, service.length);
}

uint64_t service_alive(void)
{
    uint64_t now = portus_now();

    if (service.every == 0)
        return UINT64_MAX;
    if (now - service.last >= service.every) {
        service.last = now;
        service_tell("WATCHDOG=1");
    }
    return service.every;
}
