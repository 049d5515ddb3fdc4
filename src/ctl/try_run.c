/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * try_run.c -- one run of the command that is tried: plain, watched, shimmed, killed
 *
 * This process adopts all that the command leaves (PR_SET_CHILD_SUBREAPER), its agent
 * among them: so it can wait for the end of everything, or kill everything, and touches
 * nothing that it did not start. Output goes into files, as a pipe would stay open.
 *
 * A recorded run is stopped for a moment whenever it closes a file, and the file's bytes
 * are noted: that is as much as can be known of its states without tracing it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/futex.h"
#include "ctl/ctl.h"
#include "ctl/try.h"

#define SHIM_NAME "libportus_shim.so"
#define LEFT_NS 10000000000ull   /* for what the command leaves running */
#define AGENT_NS 300000000000ull /* for its agent to drain */
#define WATCHES 4096
#define PROCESSES 65536

volatile sig_atomic_t try_interrupted;

static void interrupt(int number)
{
    try_interrupted = number;
}

int try_begin(void)
{
    struct sigaction action = {.sa_handler = interrupt};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : 0;
}

char *try_file(char out[PATH_MAX], const struct try_run *run, const char *what)
{
    snprintf(out, PATH_MAX, "%s/%s.%s", run->work, run->name, what);
    return out;
}

/* --- processes --- */

struct process {
    pid_t pid, parent;
    bool ours, agent, dead;
};

/* All processes that come from this one; how many. */
static size_t descendants(struct process *list)
{
    DIR *directory = opendir("/proc");
    size_t all = 0, count = 0;
    struct dirent *entry;

    while (directory != NULL && (entry = readdir(directory)) != NULL && all < PROCESSES) {
        struct process *process = &list[all];
        char path[64], line[512], name[17] = "", state;
        int fd, parent;
        ssize_t length;

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof(path), "/proc/%.20s/stat", entry->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        length = fd >= 0 ? read(fd, line, sizeof(line) - 1) : -1;
        if (fd >= 0)
            close(fd);
        if (length <= 0)
            continue;
        line[length] = '\0';
        /* pid (name) state parent; a name may have any character in it */
        char *open = strchr(line, '('), *close = strrchr(line, ')');
        if (open == NULL || close == NULL || sscanf(close + 1, " %c %d", &state, &parent) != 2)
            continue;
        *close = '\0';
        snprintf(name, sizeof(name), "%s", open + 1);
        *process = (struct process){.pid = atoi(line), .parent = parent};
        process->agent = strcmp(name, "portus-agent") == 0;
        process->dead = state == 'Z' || state == 'X';
        all++;
    }
    if (directory != NULL)
        closedir(directory);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < all; i++) {
            bool ours = list[i].parent == getpid();

            for (size_t j = 0; j < all && !ours; j++)
                ours = list[j].ours && list[j].pid == list[i].parent;
            if (ours && !list[i].ours)
                more = list[i].ours = true;
        }
    }
    for (size_t i = 0; i < all; i++)
        if (list[i].ours && !list[i].dead)
            list[count++] = list[i];
    return count;
}

enum which { PROGRAMS = 1, AGENTS = 2, BOTH = 3 };

/* How many there are; with a signal, unless it is 0. */
static size_t tell(enum which which, int number)
{
    static struct process list[PROCESSES];
    size_t count = descendants(list), found = 0;

    for (size_t i = 0; i < count; i++) {
        if (!(which & (list[i].agent ? AGENTS : PROGRAMS)))
            continue;
        found++;
        if (number != 0)
            kill(list[i].pid, number);
    }
    return found;
}

/* Stops them first, so that none goes on, or makes another, while others are killed. */
static void kill_them(enum which which)
{
    for (size_t before = 0, now; (now = tell(which, SIGSTOP)) != before;)
        before = now;
    tell(which, SIGKILL);
}

/* Collects children that are dead, except pid. */
static void reap(pid_t except)
{
    siginfo_t info;

    for (;;) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 ||
            info.si_pid == except)
            return;
        waitpid(info.si_pid, NULL, WNOHANG);
    }
}

static bool wait_gone(enum which which, uint64_t limit)
{
    uint64_t began = portus_now();

    for (unsigned turn = 0;; turn++) {
        reap(-1);
        if (tell(which, 0) == 0)
            return true;
        if (portus_now() - began > limit || try_interrupted)
            return false;
        poll(NULL, 0, turn < 20 ? 2 : 20);
    }
}

int try_helper(const char *const *argv)
{
    pid_t pid = fork();
    int status = -1, null;

    if (pid == 0) {
        null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(null, fd);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- the command --- */

/* What LD_PRELOAD is without a shim in it. */
static void strip(char *out, size_t room, const char *list)
{
    size_t used = 0;

    out[0] = '\0';
    while (*list != '\0') {
        size_t length = strcspn(list, ": ");
        bool shim = length >= strlen(SHIM_NAME) &&
                    strncmp(list + length - strlen(SHIM_NAME), SHIM_NAME, strlen(SHIM_NAME)) == 0;

        if (length > 0 && !shim && used + length + 2 < room)
            used += (size_t)snprintf(out + used, room - used, "%s%.*s", used > 0 ? ":" : "",
                                     (int)length, list);
        list += length + (list[length] != '\0');
    }
}

static void set_environment(const struct try_run *run)
{
    char others[8192], text[PATH_MAX + sizeof(others)], path[PATH_MAX];
    const char *preload = getenv("LD_PRELOAD");

    strip(others, sizeof(others), preload != NULL ? preload : "");
    if (run->way == TRY_PLAIN) {
        others[0] != '\0' ? setenv("LD_PRELOAD", others, 1) : unsetenv("LD_PRELOAD");
        return;
    }
    snprintf(text, sizeof(text), "%s%s%s", run->shim, others[0] != '\0' ? ":" : "", others);
    setenv("LD_PRELOAD", text, 1);
    snprintf(text, sizeof(text), "try-%d-%s", (int)getppid(), run->name);
    setenv("PORTUS_JOB", text, 1);
    setenv("PORTUS", run->way == TRY_REPORT ? "report" : "auto", 1);
    setenv("PORTUS_SUMMARY", "0", 1);
    setenv("PORTUS_TRACE", try_file(path, run, "trace"), 1);
    snprintf(text, sizeof(text), "warn:%s", try_file(path, run, "log"));
    setenv("PORTUS_LOG", text, 1);
    unsetenv("PORTUS_STORE"); /* no pool is filled with trials */
}

static void child(const struct try_run *run)
{
    struct rlimit limit = {run->file_size, run->file_size};
    char path[PATH_MAX];
    sigset_t none;
    int in, out, err;

    set_environment(run);
    in = open("/dev/null", O_RDONLY);
    out = open(try_file(path, run, "out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    err = open(try_file(path, run, "err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (in < 0 || out < 0 || err < 0 || chdir(run->directory) < 0)
        goto fail;
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    setsid();
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (run->file_size != RLIM_INFINITY)
        setrlimit(RLIMIT_FSIZE, &limit);
    execvp(run->argv[0], run->argv);
fail:
    dprintf(2, "%s: %s\n", run->argv[0], strerror(errno));
    _exit(127);
}

/* --- recording --- */

static char *watched[WATCHES]; /* directories, by the number of their watch */

static void watch(int fd, const char *directory)
{
    DIR *list = opendir(directory);
    struct dirent *entry;
    int number;

    if (list == NULL)
        return;
    number =
        inotify_add_watch(fd, directory, IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR);
    if (number >= 0 && number < WATCHES && (number == 0 || watched[number] == NULL))
        watched[number] = strdup(directory);
    /* What was made before the watch was. */
    while ((entry = readdir(list)) != NULL) {
        char path[2 * PATH_MAX];

        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0)
            watch(fd, path);
    }
    closedir(list);
}

static void record(int fd, const struct try_run *run)
{
    char buffer[65536] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t length;

    tell(PROGRAMS, SIGSTOP);
    while ((length = read(fd, buffer, sizeof(buffer))) > 0)
        for (char *at = buffer; at < buffer + length;) {
            const struct inotify_event *event = (const struct inotify_event *)at;
            char path[2 * PATH_MAX];

            at += sizeof(*event) + event->len;
            if (event->wd < 0 || event->wd >= WATCHES || watched[event->wd] == NULL ||
                event->len == 0)
                continue;
            snprintf(path, sizeof(path), "%s/%s", watched[event->wd], event->name);
            if (event->mask & IN_ISDIR)
                watch(fd, path);
            else if (event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO))
                known_add(run->record, path, path + strlen(run->directory) + 1);
        }
    tell(PROGRAMS, SIGCONT);
}

static int begin_record(const struct try_run *run)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    if (fd >= 0)
        watch(fd, run->directory);
    return fd;
}

static void end_record(int fd)
{
    close(fd);
    for (unsigned i = 0; i < WATCHES; i++) {
        free(watched[i]);
        watched[i] = NULL;
    }
}

/* --- a run --- */

static int milliseconds(uint64_t until)
{
    uint64_t now = portus_now();

    if (until == UINT64_MAX || until - now > 1000000000)
        return until <= now ? 0 : 1000;
    return until <= now ? 0 : (int)((until - now + 999999) / 1000000);
}

/* Until the command itself has ended. */
static void attend(struct try_run *run, pid_t pid, uint64_t began, int inotify)
{
    uint64_t limit = run->limit_ns == UINT64_MAX ? UINT64_MAX : began + run->limit_ns;
    uint64_t victim_at = UINT64_MAX;
    char trace[PATH_MAX];
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    for (;;) {
        struct pollfd wait[2] = {{pidfd, POLLIN, 0}, {inotify, POLLIN, 0}};
        bool aimed = run->victim == TRY_NOBODY || victim_at != UINT64_MAX;
        siginfo_t info = {0};

        /* The timeline comes into being with the first save. */
        if (!aimed && (run->way == TRY_PLAIN || access(try_file(trace, run, "trace"), F_OK) == 0))
            victim_at = (run->way == TRY_PLAIN ? began : portus_now()) + run->kill_ns;
        poll(wait, 2,
             pidfd < 0           ? 5
             : !aimed            ? 1
             : victim_at < limit ? milliseconds(victim_at)
                                 : milliseconds(limit));
        if (inotify >= 0 && wait[1].revents != 0)
            record(inotify, run);
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid)
            break;
        reap(pid);
        if (portus_now() >= victim_at && !run->killed) {
            run->killed = true;
            kill_them(run->victim == TRY_ALL ? BOTH : PROGRAMS);
        }
        if (portus_now() >= limit || try_interrupted) {
            run->late = portus_now() >= limit;
            kill_them(BOTH);
        }
    }
    run->ns = portus_now() - began;
    waitpid(pid, &run->status, 0);
    if (pidfd >= 0)
        close(pidfd);
}

int try_run(struct try_run *run)
{
    uint64_t began;
    char trace[PATH_MAX];
    int inotify = -1;
    pid_t pid;

    unlink(try_file(trace, run, "trace")); /* of the run before of that name */
    run->status = 0;
    run->late = run->killed = run->left = false;
    if (run->record != NULL)
        inotify = begin_record(run);
    began = portus_now();
    pid = fork();
    if (pid == 0)
        child(run);
    if (pid < 0)
        return -errno;
    attend(run, pid, began, inotify);
    if (!run->killed)
        run->left = !wait_gone(PROGRAMS, run->late ? 0 : LEFT_NS);
    kill_them(PROGRAMS);
    if (inotify >= 0) {
        record(inotify, run);
        end_record(inotify);
    }
    began = portus_now();
    tell(AGENTS, SIGTERM); /* it drains what there is, and ends */
    if (!wait_gone(AGENTS, AGENT_NS) && !try_interrupted)
        complain("try: the agent has not ended within %llu s: it is killed", AGENT_NS / 1000000000);
    run->agent_ns = portus_now() - began;
    kill_them(BOTH);
    while (tell(BOTH, 0) > 0) {
        reap(-1);
        poll(NULL, 0, 1);
    }
    reap(-1);
    return 0;
}
