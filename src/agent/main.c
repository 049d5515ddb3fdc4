/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c -- portus-agent: the keeper
 *
 * The keeper owns the name, the descriptors and the lease signals, and does
 * nothing that can fail: the work is done by a second process on the same
 * descriptor table, which is replaced when it dies. It ends when the worker ends
 * by itself, which it does when nobody has needed it for a while.
 *
 * Started by the shim, with the program's environment, user, cgroup and namespaces,
 * but none of its descriptors (a pipe would keep a reader waiting), nor its directory,
 * session, signal mask or processors.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/futex.h"
#include "common/log.h"
#include "common/name.h"
#include "common/trace.h"

#define RESTARTS_MAX 1000
#define RESTARTS_NS 60000000000ull

/* Not from the program's terminal, pipes or directory. */
static void leave(void)
{
    int null = open("/dev/null", O_RDWR);

    umask(077);
    if (setsid() < 0)
        log_debug("already leads a session");
    if (chdir("/") < 0)
        log_debug("the root directory cannot be entered");
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    syscall(SYS_close_range, 3u, ~0u, 0u);
}

/* A path of the program's directory, for us, who leave that, and for portusd. */
static void keep_path(const char *variable, const char *head, char path[PORTUS_ENV_TEXT])
{
    char text[PATH_MAX + 2 * PORTUS_ENV_TEXT], *directory;

    if (path[0] == '\0' || path[0] == '/')
        return;
    directory = getcwd(NULL, 0);
    if (directory != NULL && strlen(directory) + 1 + strlen(path) < PORTUS_ENV_TEXT) {
        snprintf(text, sizeof(text), "%s%s/%s", head, directory, path);
        setenv(variable, text, 1);
        memmove(path + strlen(directory) + 1, path, strlen(path) + 1);
        memcpy(path, directory, strlen(directory));
        path[strlen(directory)] = '/';
    } else {
        path[0] = '\0'; /* better none than one elsewhere */
    }
    free(directory);
}

static void keep_log_path(struct portus_env *env)
{
    const char *text = getenv("PORTUS_LOG");
    char head[32];

    if (text == NULL || env->log_file[0] == '\0')
        return;
    snprintf(head, sizeof(head), "%.*s", (int)strcspn(text, ":") + 1, text);
    keep_path("PORTUS_LOG", head, env->log_file);
}

static void raise_limits(void)
{
    struct rlimit limit;
    cpu_set_t all;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    limit.rlim_cur = limit.rlim_max = 0;
    setrlimit(RLIMIT_CORE, &limit);
    /* A rank that is bound to one processor must not share it with the drain. */
    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
}

static struct portus_control *make_control(struct agent_state *state)
{
    struct portus_control *control;
    int fd = memfd_create("portus-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || fchmod(fd, 0600) < 0 || ftruncate(fd, sizeof(*control)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return NULL;
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED)
        return NULL;
    control->magic = PORTUS_CONTROL_MAGIC;
    control->version = PORTUS_CONTROL_VERSION;
    control->bytes = sizeof(*control);
    snprintf(control->release, sizeof(control->release), "%s", PORTUS_VERSION);
    control->keeper = (uint32_t)getpid();
    control->undrained_limit = 2ull << 30; /* until the drain's rate is known */
    control->started_ns = portus_now();
    state->control_fd = fd;
    return control;
}

/* 0: ours; EADDRINUSE: another agent is there already. */
static int take_name(struct agent_state *state)
{
    struct sockaddr_un address;
    socklen_t length;
    int error = portus_name(&address, &length, state->env.job);

    if (error != 0)
        return -error;
    state->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (state->listener < 0)
        return errno;
    if (bind(state->listener, (struct sockaddr *)&address, length) < 0)
        return errno;
    return listen(state->listener, 128) < 0 ? errno : 0;
}

static pid_t start_worker(struct agent_state *state, struct portus_control *control,
                          const sigset_t *mask)
{
    /* One descriptor table: what the worker receives outlives it. */
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != state->keeper)
        _exit(1);
    sigprocmask(SIG_SETMASK, mask, NULL); /* all that the keeper handles stays blocked */
    agent_work(state, control);
}

static void ring(int eventfd)
{
    uint64_t one = 1;

    if (write(eventfd, &one, sizeof(one)) < 0)
        log_debug("eventfd: %s", strerror(errno)); /* full: it is ringing already */
}

/* Waits for the worker's end, passing signals on. Returns wait(2)'s status. */
static int watch(struct agent_state *state, struct portus_control *control, pid_t worker,
                 const sigset_t *signals)
{
    siginfo_t info;
    int status;

    for (;;) {
        if (waitpid(worker, &status, WNOHANG) == worker)
            return status;
        if (sigwaitinfo(signals, &info) < 0)
            continue;
        if (info.si_signo == SIGRTMIN || info.si_signo == SIGIO) {
            ring(state->breaks);
        } else if (info.si_signo != SIGCHLD) {
            atomic_store(&control->passive, PORTUS_PASSIVE_TERM);
            ring(state->doorbell);
        }
    }
}

int main(int argc, char **argv)
{
    struct agent_state *state;
    struct portus_control *control;
    uint64_t first = portus_now();
    sigset_t signals;
    int error, status;

    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("portus-agent %s\n", PORTUS_VERSION);
        return 0;
    }
    if (argc > 1) {
        fprintf(stderr, "usage: portus-agent [--version]\n"
                        "started by libportus_shim.so where it is needed; see portus-agent(1)\n");
        return 2;
    }
    state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED)
        return 1;
    portus_env_load(&state->env);
    keep_path("PORTUS_TRACE", "", state->env.trace);
    keep_path("PORTUS_METRICS", "", state->env.metrics);
    keep_log_path(&state->env);
    leave();
    raise_limits();
    portus_log_setup((enum portus_level)state->env.log_level,
                     state->env.log_file[0] != '\0' ? state->env.log_file : NULL, "portus-agent: ");

    portus_log_json(state->env.log_json);
    portus_trace_setup(state->env.trace, "portus-agent");

    /* Blocked before anybody can know our name, so that no signal is lost. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGIO); /* instead of SIGRTMIN when its queue is full */
    sigaddset(&signals, SIGRTMIN);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);

    state->keeper = getpid();
    control = make_control(state);
    state->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    state->breaks = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control == NULL || state->doorbell < 0 || state->breaks < 0) {
        log_error("no shared memory: %s", strerror(errno));
        return 1;
    }
    error = take_name(state);
    if (error == EADDRINUSE)
        return 0;
    if (error != 0) {
        log_error("no socket: %s", strerror(error));
        return 1;
    }
    for (;;) {
        pid_t worker = start_worker(state, control, &signals);
        if (worker < 0) {
            log_error("no worker: %s", strerror(errno));
            return 1;
        }
        status = watch(state, control, worker, &signals);
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        if (atomic_fetch_add(&control->restarts, 1) >= RESTARTS_MAX &&
            portus_now() - first < RESTARTS_NS) {
            log_error("the worker dies again and again: clients write the rest themselves");
            return 1;
        }
        state->killed = worker; /* the next one says so: a line could hold us up */
        state->killed_by = WTERMSIG(status);
    }
}
