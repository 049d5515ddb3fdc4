/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c -- portusd: the store of one pool
 *
 * Owns the pool, and touches no file of a user's but to read it. Started by an agent
 * whose PORTUS_STORE names the pool; or by hand or a service manager, then it stays. With
 * a socket of a name that all users can find it serves them all (share.c).
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
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/env.h"
#include "common/futex.h"
#include "common/log.h"
#include "common/name.h"
#include "common/scribe.h"
#include "common/trace.h"
#include "portus/portus.h"
#include "store/metrics.h"
#include "store/rings.h"
#include "store/service.h"

#define IDLE_NS 10000000000ull
#define LOOK_NS 1000000000ull
#define FILES 16384
#define STATUS_NS 5000000000ull
#define EXTEND_NS 10000000000ull
#define WAITS_MS 1000
#define LISTEN_ROOM (5 + 108) /* "unix:" and what a socket's address holds */

struct setup {
    unsigned keep;
    uint64_t scrub;
    int wrong; /* variables of the environment */
    bool idle_ends;
    const char *config, *pool, *keys;
    unsigned metrics;         /* port; 0: none */
    char listen[LISTEN_ROOM]; /* unix:PATH, or "" */
    const char *far[FAR_LISTENERS];
    unsigned fars;
};

static const char usage[] =
    "usage: portusd [--keep N] [--scrub SIZE] [--idle] [--listen "
    "PATH|tcp://ADDRESS[:PORT]|rdma:...]...\n"
    "               [--keys FILE] [--config FILE] [--metrics PORT] POOL\n"
    "keeps versions of checkpoint files in POOL (made by portusctl pool create); see portusd(1)\n";

/* A socket file that nobody listens at is left from a portusd that was killed. */
static void clear_name(const char *path, const struct sockaddr_un *address, socklen_t length)
{
    struct stat status;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) && fd >= 0 &&
        connect(fd, (const struct sockaddr *)address, length) < 0 && errno == ECONNREFUSED)
        unlink(path);
    if (fd >= 0)
        close(fd);
}

/* 0, or an errno; EADDRINUSE: another portusd is there. */
static int take_name(struct store *store, const char *name)
{
    struct sockaddr_un address;
    socklen_t length;
    int error = portus_name_store(&address, &length, name);

    if (error != 0)
        return -error;
    store->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (store->shared)
        clear_name(address.sun_path, &address, length);
    if (store->listener < 0 || bind(store->listener, (struct sockaddr *)&address, length) < 0 ||
        (store->shared && chmod(address.sun_path, 0666) < 0) || listen(store->listener, 128) < 0)
        return errno;
    return 0;
}

/* Files of all users may wait here, which are more than a process usually opens. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= FILES)
        return;
    limit.rlim_cur = limit.rlim_max < FILES ? limit.rlim_max : FILES;
    setrlimit(RLIMIT_NOFILE, &limit);
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

/* How often it was told to end; and whether to read its configuration again. */
static unsigned told(int signals, bool *again)
{
    struct signalfd_siginfo info;
    unsigned count = 0;
    ssize_t length;

    while ((length = read(signals, &info, sizeof(info))) == (ssize_t)sizeof(info)) {
        count += info.ssi_signo != SIGHUP;
        *again |= info.ssi_signo == SIGHUP;
    }
    if (length < 0 && errno != EAGAIN && errno != EINTR) {
        log_error("signals cannot be heard: %s: ends", strerror(errno));
        count++;
    }
    return count;
}

static void use_config(struct store *store, const struct setup *setup)
{
    store->keep = setup->keep;
    if (store->config.keep != 0)
        store->keep = (unsigned)store->config.keep;
}

static void reload(struct store *store, const struct setup *setup)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    service_tell("RELOADING=1\nMONOTONIC_USEC=%llu",
                 (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
    if (setup->config == NULL) {
        log_info("told to reload: there is no --config");
    } else if (config_load(&store->config, setup->config) == 0) {
        use_config(store, setup);
        log_info("%s is read again", setup->config);
    } else {
        log_error("%s: the limits of before are kept", setup->config);
    }
    if (setup->keys != NULL) {
        struct keys keys;

        if (keys_load(&keys, setup->keys) == 0) {
            struct keys before = store->keys;

            store->keys = keys;
            far_keys_changed(store, &before);
            keys_free(&before);
            log_info("%s is read again", setup->keys);
        } else {
            log_error("%s: the keys of before are kept", setup->keys);
        }
    }
    service_tell("READY=1");
}

/* For who asks how it is. */
static void tell_status(const struct store *store, uint64_t now)
{
    static uint64_t last;
    struct pool_state state;

    if (last != 0 && now - last < STATUS_NS)
        return;
    last = now;
    pool_look(store->pool, &state);
    service_tell("STATUS=%llu versions, %llu of %llu MiB free, %u connections, %llu files wait",
                 (unsigned long long)(state.slots - state.slots_free),
                 (unsigned long long)state.free >> 20, (unsigned long long)state.size >> 20,
                 store_peers(store), (unsigned long long)(store->queued - store->taken));
}

/* Whether the pool's file still is at its path: in one that is deleted nobody finds anything. */
static bool stands(const char *path, const struct stat *opened)
{
    struct stat status;

    return stat(path, &status) == 0 && status.st_ino == opened->st_ino &&
           status.st_dev == opened->st_dev;
}

static int serve(struct store *store, const struct setup *setup, int signals)
{
    uint64_t idle_since = 0, looked = 0, extended = 0;
    struct stat opened;
    unsigned ends = 0;
    int error;

    if (stat(setup->pool, &opened) < 0) {
        error = -errno;
        log_error("%s: cannot be seen: %s: ends", setup->pool, strerror(-error));
        return error;
    }

    for (;;) {
        bool more = rings_turn(store), again = false;
        uint64_t now = portus_now(), alive = service_alive();
        int wait;

        more |= store_take(store);
        wait = more ? 0 : store_waits(store) ? WAITS_MS : store_tend(store);
        if (alive / 1000000 < (uint64_t)wait)
            wait = (int)(alive / 1000000);
        error = store_listen(store, signals, wait);
        if (error != 0) {
            log_error("nobody can be heard: %s: ends", strerror(-error));
            return error;
        }
        metrics_turn();
        ends += told(signals, &again);
        if (ends > 1 || (ends == 1 && !more && !store_waits(store)))
            return 0;
        if (again)
            reload(store, setup);
        tell_status(store, now);
        if (now - looked > LOOK_NS && !stands(setup->pool, &opened)) {
            log_error("%s has been deleted or made anew: the next checkpoint finds what is there",
                      setup->pool);
            return -ENOENT;
        }
        if (now - looked > LOOK_NS)
            looked = now;
        if (ends == 1 && !store->ending) {
            log_info("told to end: %llu files are still copied",
                     (unsigned long long)(store->queued - store->taken));
            if (store->listener >= 0)
                close(store->listener);
            store->listener = -1;
            store->ending = true;
            far_listen_end();
            service_tell("STOPPING=1");
        }
        if (ends == 1 && now - extended > EXTEND_NS) {
            extended = now;
            service_tell("EXTEND_TIMEOUT_USEC=%llu", 3 * EXTEND_NS / 1000);
        }
        if (more || store_waits(store) || store_peers(store) > 0 || store_tending())
            idle_since = 0;
        else if (idle_since == 0)
            idle_since = now;
        else if (setup->idle_ends && now - idle_since > IDLE_NS)
            return 0;
    }
}

/* Fills setup from the command line. -1, or an exit status. */
static int read_options(int argc, char **argv, struct setup *setup)
{
    static const struct option known[] = {
        {"keep", required_argument, NULL, 'k'},   {"scrub", required_argument, NULL, 's'},
        {"idle", no_argument, NULL, 'i'},         {"listen", required_argument, NULL, 'l'},
        {"config", required_argument, NULL, 'c'}, {"keys", required_argument, NULL, 'K'},
        {"version", no_argument, NULL, 'v'},      {"metrics", required_argument, NULL, 'm'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    static struct portus_env env;
    char *end;
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'k':
            setup->keep = (unsigned)strtoul(optarg, NULL, 10);
            if (setup->keep == 0) {
                fprintf(stderr, "portusd: --keep %s: give a number from 1 up\n", optarg);
                return 2;
            }
            break;
        case 's':
            setenv("PORTUS_SCRUB", optarg, 1);
            if (portus_env_load(&env) > setup->wrong)
                return 2; /* it has been said */
            setup->scrub = env.scrub;
            break;
        case 'i':
            setup->idle_ends = true;
            break;
        case 'l':
            if (portus_address_is(optarg)) {
                if (portus_address_count(optarg) != 1 || setup->fars == FAR_LISTENERS) {
                    fprintf(stderr,
                            "portusd: --listen %s: give an address, for example "
                            "tcp://192.0.2.1:7470, and %d of them at most\n",
                            optarg, FAR_LISTENERS);
                    return 2;
                }
                setup->far[setup->fars++] = optarg;
                break;
            }
            if (optarg[0] != '/' || snprintf(setup->listen, sizeof(setup->listen), "%s%s",
                                             PORTUS_NAME_UNIX, optarg) >= LISTEN_ROOM) {
                fprintf(stderr, "portusd: --listen %s: give an absolute path of %d bytes at most\n",
                        optarg, LISTEN_ROOM - 6);
                return 2;
            }
            break;
        case 'c':
            setup->config = optarg;
            break;
        case 'K':
            setup->keys = optarg;
            break;
        case 'm':
            setup->metrics = (unsigned)strtoul(optarg, &end, 10);
            if (setup->metrics == 0 || setup->metrics > 65535 || *end != '\0') {
                fprintf(stderr, "portusd: --metrics %s: give a port of 127.0.0.1, 1 to 65535\n",
                        optarg);
                return 2;
            }
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
    if ((setup->fars > 0) != (setup->keys != NULL)) {
        fputs(
            "portusd: --listen tcp://... and --keys FILE go together: other machines are let in by "
            "their keys alone\n",
            stderr);
        return 2;
    }
    setup->pool = argv[optind];
    return -1;
}

/* A name, and a pool. 0, or an exit status; -1: another portusd is there. */
static int open_store(struct store *store, const struct setup *setup)
{
    int error = 0;

    /* A socket file is taken over only by who has the pool; a name is the lock for both. */
    if (store->shared && pool_open(&store->pool, setup->pool, true) != 0)
        return 1; /* it has said why */
    if (store->listener < 0 && (setup->listen[0] != '\0' || !store->shared))
        error = take_name(store, store->shared ? setup->listen : setup->pool);
    if (error == EADDRINUSE && !store->shared) {
        log_info("%s is served already", setup->pool);
        return -1;
    }
    if (error != 0) {
        log_error("%s: %s%s", store->shared ? setup->listen : setup->pool, strerror(error),
                  error == ENOENT && !store->shared ? ": portusctl pool create makes a pool" : "");
        return 1;
    }
    for (unsigned i = 0; i < setup->fars; i++)
        if (far_listen(store, setup->far[i]) != 0)
            return 1; /* it has said why */
    if (!store->shared && pool_open(&store->pool, setup->pool, true) != 0)
        return 1;
    far_keep(store->pool);
    return 0;
}

int main(int argc, char **argv)
{
    static struct store store = {.listener = -1};
    static struct portus_env env;
    struct setup setup = {0};
    struct pool_state state;
    int signals, error;

    setup.wrong = portus_env_load(&env);
    portus_log_setup((enum portus_level)env.log_level,
                     env.log_file[0] != '\0' ? env.log_file : NULL, "portusd: ");
    portus_log_json(env.log_json);
    portus_trace_setup(env.trace, "portusd");
    if (service_journal())
        portus_log_journal();
    setup.keep = env.keep < 1000000 ? (unsigned)env.keep : 1000000;
    setup.scrub = env.scrub;
    error = read_options(argc, argv, &setup);
    if (error >= 0)
        return error;
    store.scrub = setup.scrub;
    config_reset(&store.config);
    if (setup.config != NULL && config_load(&store.config, setup.config) != 0)
        return 2;
    use_config(&store, &setup);
    if (setup.keys != NULL && keys_load(&store.keys, setup.keys) != 0)
        return 2;
    for (unsigned i = 0; i < STORE_PEERS; i++)
        store.peer[i].socket = -1;
    signals = block_signals();
    if (signals < 0 || service_begin(&store.listener) != 0) {
        log_error("cannot begin: %s", strerror(errno));
        return 1;
    }
    portus_scribes_begin();
    store.self = geteuid();
    store.strangers = store.listener >= 0 || setup.listen[0] != '\0';
    store.shared = store.strangers || setup.fars > 0;
    if (store.shared) {
        raise_limit();
        store_listen_to_strangers();
    }
    error = open_store(&store, &setup);
    if (error != 0)
        return error < 0 ? 0 : error;
    pool_look(store.pool, &state);
    log_info("%s: %s, %llu of %llu bytes free", setup.pool, state.kind,
             (unsigned long long)state.free, (unsigned long long)state.size);
    if (setup.metrics != 0) {
        error = metrics_begin(&store, setup.metrics);
        if (error != 0)
            log_error("--metrics %u: %s: goes on without", setup.metrics, strerror(-error));
    }
    service_tell("READY=1");
    error = serve(&store, &setup, signals);
    store_tend_end();
    metrics_end();
    service_tell("STOPPING=1");
    if (store.listener >= 0) /* whoever comes now need not wait for all that */
        close(store.listener);
    if (setup.listen[0] != '\0')
        unlink(setup.listen + strlen(PORTUS_NAME_UNIX));
    pool_close(store.pool);
    return error != 0 ? 1 : 0;
}
