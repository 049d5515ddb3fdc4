/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c -- portusd: the store of one pool
 *
 * Owns the pool, and touches no file of a user's but to read it. Started by an agent
 * whose PORTUS_STORE names the pool; or by hand or a service manager, then it stays.
 * One loop: listen, copy a piece, listen.
 *
 * SIGTERM and SIGINT: what is queued is still copied, nothing new is taken, then it
 * ends; a second one ends it at once, which costs the version that is being written
 * and no other.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/env.h"
#include "common/futex.h"
#include "common/log.h"
#include "common/name.h"
#include "portus/portus.h"
#include "store/pull.h"

#define IDLE_NS 10000000000ull
#define LOOK_NS 1000000000ull

static const char usage[] =
    "usage: portusd [--keep N] [--scrub SIZE] [--idle] POOL\n"
    "keeps versions of checkpoint files in POOL (made by portusctl pool create); see portusd(1)\n";

/* 0, or an errno; EADDRINUSE: another portusd is there. */
static int take_name(struct store *store, const char *path)
{
    struct sockaddr_un address;
    socklen_t length;
    int error = portus_name_store(&address, &length, path);

    if (error != 0)
        return -error;
    store->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (store->listener < 0 || bind(store->listener, (struct sockaddr *)&address, length) < 0 ||
        listen(store->listener, 128) < 0)
        return errno;
    return 0;
}

static int block_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* How often it was told to end. */
static unsigned told(int signals)
{
    struct signalfd_siginfo info;
    unsigned count = 0;

    while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        count += info.ssi_signo != SIGHUP;
    return count;
}

/* Whether the pool's file still is at its path: in one that is deleted nobody finds anything. */
static bool stands(const char *path, const struct stat *opened)
{
    struct stat status;

    return stat(path, &status) == 0 && status.st_ino == opened->st_ino &&
           status.st_dev == opened->st_dev;
}

static int serve(struct store *store, const char *path, int signals, bool idle_ends)
{
    uint64_t idle_since = 0, looked = 0;
    struct stat opened;
    unsigned ends = 0;

    if (stat(path, &opened) < 0)
        return -errno;

    for (;;) {
        bool more = pull_turn(store);
        uint64_t now = portus_now();

        more |= store_take(store);
        store_listen(store, signals, more ? 0 : store_tend(store));
        ends += told(signals);
        if (ends > 1 || (ends == 1 && !more))
            return 0;
        if (now - looked > LOOK_NS && !stands(path, &opened)) {
            log_error("%s has been deleted or made anew: the next checkpoint finds what is there",
                      path);
            return -ENOENT;
        }
        if (now - looked > LOOK_NS)
            looked = now;
        if (ends == 1 && store->listener >= 0) {
            log_info("told to end: %llu files are still copied",
                     (unsigned long long)(store->queued - store->taken));
            close(store->listener);
            store->listener = -1;
        }
        if (more || store_peers(store) > 0 || store_tending())
            idle_since = 0;
        else if (idle_since == 0)
            idle_since = now;
        else if (idle_ends && now - idle_since > IDLE_NS)
            return 0;
    }
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"keep", required_argument, NULL, 'k'}, {"scrub", required_argument, NULL, 's'},
        {"idle", no_argument, NULL, 'i'},       {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
    };
    static struct store store;
    static struct portus_env env;
    struct pool_state state;
    bool idle_ends = false;
    int option, signals, error, wrong;

    wrong = portus_env_load(&env);
    portus_log_setup((enum portus_level)env.log_level,
                     env.log_file[0] != '\0' ? env.log_file : NULL, "portusd: ");
    store.keep = env.keep < 1000000 ? (unsigned)env.keep : 1000000;
    store.scrub = env.scrub;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'k':
            store.keep = (unsigned)strtoul(optarg, NULL, 10);
            if (store.keep == 0) {
                fprintf(stderr, "portusd: --keep %s: give a number from 1 up\n", optarg);
                return 2;
            }
            break;
        case 's':
            setenv("PORTUS_SCRUB", optarg, 1);
            if (portus_env_load(&env) > wrong)
                return 2; /* it has been said */
            store.scrub = env.scrub;
            break;
        case 'i':
            idle_ends = true;
            break;
        case 'v':
            printf("portusd %s\n", PORTUS_VERSION);
            return 0;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs(usage, stderr);
            return 2;
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        return 2;
    }
    for (unsigned i = 0; i < STORE_PEERS; i++)
        store.peer[i].socket = -1;
    signals = block_signals();
    error = take_name(&store, argv[optind]);
    if (error == EADDRINUSE) {
        log_info("%s is served already", argv[optind]);
        return 0;
    }
    if (signals < 0 || error != 0) {
        log_error("%s: %s%s", argv[optind], strerror(error != 0 ? error : errno),
                  error == ENOENT ? ": portusctl pool create makes a pool" : "");
        return 1;
    }
    if (pool_open(&store.pool, argv[optind], true) != 0)
        return 1; /* it has said why */
    pool_look(store.pool, &state);
    log_info("%s: %s, %llu of %llu bytes free", argv[optind], state.kind,
             (unsigned long long)state.free, (unsigned long long)state.size);
    error = serve(&store, argv[optind], signals, idle_ends);
    store_tend_end();
    pool_close(store.pool);
    return error != 0 ? 1 : 0;
}
