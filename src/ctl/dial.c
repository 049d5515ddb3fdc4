// SPDX-License-Identifier: BSD-3-Clause
/*
 * dial.c -- reaches stores on other machines
 *
 * A child carries (carrier.h), so that all that is spoken here is spoken as to a portusd of this
 * machine. It ends when its socket is closed.
 */
#include "ctl/dial.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carrier/carrier.h"
#include "store/remote.h"

static const char *key_path = "";

/* A socket, or a negative errno. */
static int dial(const char *stores)
{
    int pair[2], error;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    child = fork();
    if (child == 0) {
        close(pair[0]);
        signal(SIGPIPE, SIG_IGN);
        _exit(carrier_run(pair[1], stores, 0, key_path));
    }
    error = child < 0 ? -errno : 0;
    close(pair[1]);
    if (error != 0)
        close(pair[0]);
    return error != 0 ? error : pair[0];
}

void dial_setup(const char *key)
{
    key_path = key;
    remote_dial_by(dial);
}
