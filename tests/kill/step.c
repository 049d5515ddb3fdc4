/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * step.c -- runs a program under ptrace, and kills at counted system calls
 *
 *     step DIRECTORY SECONDS EVENTS PROGRAM ARGUMENT...
 *
 * The program's processes and the agent that it starts are traced. Each entry into
 * a system call and each return from one is a stop; stops are counted by role: p the
 * program, k the keeper, w the worker, d portusd. An event waits for a role's next so many stops:
 *
 *     w120=kw         at the worker's 120th stop keeper and worker are killed, in this order
 *     w120.9=w        9 instructions after it
 *     w120!30=pkw     30 microseconds after it went on: within a system call
 *     w120=w,p15=p    then, at the program's 15th stop from there on, the program
 *     w120=pr         r: and somebody reads all files
 *     w120~kw@2000    stopped (SIGSTOP), continued 2000 ms later or when the program ends
 *     d120-d,d9=d     told to end (SIGTERM), and killed at the 9th stop from there on
 *
 * The program runs with LD_PRELOAD from STEP_PRELOAD. Its output goes to DIRECTORY.out, where
 * each event adds a line "fired", and DIRECTORY.err. If it was killed, or there is a store, the
 * agent may finish: until it is not connected and has no file below the directory open, nor has
 * portusd. Then all are killed.
 * Says how it went:
 *
 *     fired ROLE SYSCALL entry|exit|between       stops ROLE N
 *     late ROLE ... (it did not end in time)      ended STATUS (negative: signal)
 *
 * Exit status 77: ptrace is not allowed here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TASKS 256
#define EVENTS 8
#define CONTINUED_US 20000 /* for what one that was stopped would do wrong */

struct task {
    pid_t tid, group;
    char role;
    int stepping; /* instructions left */
};

struct event {
    char role, how, victims[8]; /* how: '=' kill, '~' stop, '-' end */
    unsigned long count;
    int instructions, microseconds, again; /* again: ms until SIGCONT, or -1 */
};

static struct task tasks[TASKS];
static struct event events[EVENTS];
static int event_count, event_now;
static unsigned long stops[128], since[128]; /* by role: all, since the last event */
static const char *directory;
static pid_t program, reader;
static int output;
static bool ended, killed_program, stopped;
static double continue_at;

static void fail(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, ": %s\n", strerror(errno));
    exit(2);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void parse(char *text)
{
    for (char *word = strtok(text, ","); word != NULL; word = strtok(NULL, ",")) {
        struct event *e = &events[event_count++];
        char *p;
        e->again = -1;
        e->role = word[0];
        e->count = strtoul(word + 1, &p, 10);
        if (*p == '.')
            e->instructions = (int)strtol(p + 1, &p, 10);
        if (*p == '!')
            e->microseconds = (int)strtol(p + 1, &p, 10);
        e->how = *p;
        if (*p == '\0' || strchr("=~-", *p) == NULL || event_count == EVENTS || strchr("pkwd", e->role) == NULL)
            fail("step: what is %s", word);
        sscanf(p + 1, "%7[pkwdr]@%d", e->victims, &e->again);
    }
}

/* The beginning of /proc/TID/NAME, or an empty text. */
static const char *proc(pid_t tid, const char *name)
{
    static char text[1024];
    char path[64];
    ssize_t length;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[length > 0 ? length : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

static pid_t id_of(pid_t tid, const char *key)
{
    const char *found = strstr(proc(tid, "status"), key);

    return found == NULL ? 0 : atoi(found + strlen(key));
}

static bool is_agent(pid_t tid)
{
    return strncmp(proc(tid, "comm"), "portus-agent", 12) == 0;
}

static bool is_store(pid_t tid)
{
    return strcmp(proc(tid, "comm"), "portusd\n") == 0;
}

static struct task *find(pid_t tid)
{
    for (struct task *t = tasks; t < tasks + TASKS; t++)
        if (t->tid == tid)
            return t;
    return NULL;
}

static struct task *add(pid_t tid)
{
    struct task *t = find(0), *parent;

    if (t == NULL)
        fail("step: too many tasks");
    *t = (struct task){.tid = tid, .group = id_of(tid, "\nTgid:")};
    parent = find(t->group == tid ? id_of(tid, "\nPPid:") : t->group);
    t->role = parent != NULL ? parent->role : 'p';
    /* A keeper's child; or one that was given to us, its keeper being gone already. */
    if (is_store(tid))
        t->role = 'd';
    else if (t->group == tid && (t->role != 'p' || (parent == NULL && is_agent(tid))))
        t->role = 'w';
    return t;
}

static bool any(char role)
{
    for (struct task *t = tasks; t < tasks + TASKS; t++)
        if (t->tid != 0 && t->role == role)
            return true;
    return false;
}

static void send_to(char role, int number)
{
    for (struct task *t = tasks; t < tasks + TASKS; t++)
        if (t->tid != 0 && t->role == role && t->tid == t->group)
            kill(t->group, number);
}

static void go_on(struct task *t, int number)
{
    int how = PTRACE_CONT;

    for (int i = event_now; i < event_count; i++)
        if (events[i].role == t->role)
            how = PTRACE_SYSCALL;
    ptrace(t->stepping > 0 ? PTRACE_SINGLESTEP : how, t->tid, NULL, (void *)(long)number);
}

static void read_all(void)
{
    reader = fork();
    if (reader == 0 && chdir(directory) == 0)
        execlp("sh", "sh", "-c", "cat /dev/null $(find . -type f) >/dev/null 2>&1", NULL);
    if (reader == 0)
        _exit(1);
}

/* The current event happens; its task is in a stop, and goes on. */
static void fire(struct task *t)
{
    struct event *e = &events[event_now++];
    struct __ptrace_syscall_info info = {0};
    double until = now() + e->microseconds * 1e-6;

    ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, (void *)sizeof(info), &info);
    printf("fired %c %d %s\n", e->role, atoi(proc(t->tid, "syscall")),
           info.op == PTRACE_SYSCALL_INFO_ENTRY  ? "entry"
           : info.op == PTRACE_SYSCALL_INFO_EXIT ? "exit"
                                                 : "between");
    if (write(output, "fired\n", 6) != 6)
        fail("step: output");
    memset(since, 0, sizeof(since));
    if (e->microseconds > 0) {
        go_on(t, 0);
        while (now() < until)
            ;
    }
    for (char *v = e->victims; *v != '\0'; v++) {
        if (*v == 'r')
            read_all();
        send_to(*v, e->how == '=' ? SIGKILL : e->how == '-' ? SIGTERM : SIGSTOP);
        killed_program |= *v == 'p' && e->how == '=';
    }
    if (e->how == '~') {
        stopped = true;
        continue_at = e->again < 0 ? 1e300 : now() + e->again * 1e-3;
    }
    if (e->microseconds == 0)
        go_on(t, 0);
}

/* Whether an agent, or the program, has a connection or a file below the directory open. */
static bool agent_holds(void)
{
    char path[64], name[320], target[512];
    size_t length = strlen(directory);
    bool holds = false;

    for (struct task *t = tasks; t < tasks + TASKS && !holds; t++) {
        struct dirent *entry;
        int sockets = 0; /* one is the agent's name, one may lead to portusd */
        DIR *dir;
        if (t->tid == 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/fd", t->tid);
        dir = opendir(path);
        while (dir != NULL && (entry = readdir(dir)) != NULL) {
            snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
            ssize_t n = readlink(name, target, sizeof(target) - 1);
            target[n < 0 ? 0 : n] = '\0';
            sockets += strncmp(target, "socket:", 7) == 0;
            holds |= strncmp(target, directory, length) == 0 && target[length] == '/';
        }
        if (dir != NULL)
            closedir(dir);
        holds |= sockets > 1 + any('d') && t->role != 'd';
    }
    return holds;
}

static void stop_of(struct task *t, int status)
{
    int number = WSTOPSIG(status), what = status >> 16, pass = 0;
    struct event *e = event_now < event_count ? &events[event_now] : NULL;

    if (number == (SIGTRAP | 0x80)) {
        stops[(int)t->role]++;
        if (++since[(int)t->role] && e != NULL && t->role == e->role &&
            since[(int)e->role] == e->count) {
            t->stepping = e->instructions;
            if (t->stepping == 0) {
                fire(t);
                return;
            }
        }
    } else if (what == PTRACE_EVENT_STOP && number != SIGTRAP) {
        ptrace(PTRACE_LISTEN, t->tid, NULL, NULL); /* stays stopped */
        return;
    } else if (what == PTRACE_EVENT_EXEC) {
        t->role = is_agent(t->tid) ? 'k' : is_store(t->tid) ? 'd' : t->role;
    } else if (what == 0 && number == SIGTRAP && t->stepping > 0) {
        if (--t->stepping == 0) {
            fire(t);
            return;
        }
    } else if (what == 0) {
        pass = number;
    }
    go_on(t, pass);
}

static void tick(int number)
{
    (void)number;
}

static void start(char **argv)
{
    char path[4096];
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    int go[2];

    snprintf(path, sizeof(path), "%s.out", directory);
    output = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    snprintf(path, sizeof(path), "%s.err", directory);
    if (output < 0 || pipe2(go, O_CLOEXEC) < 0)
        fail("step: %s", path);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    program = fork();
    if (program == 0) {
        int error = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
        char c;
        if (getenv("STEP_PRELOAD") != NULL)
            setenv("LD_PRELOAD", getenv("STEP_PRELOAD"), 1);
        if (read(go[0], &c, 1) == 1 && dup2(output, 1) == 1 && dup2(error, 2) == 2 &&
            close(error) == 0 && chdir(directory) == 0)
            execv(argv[0], argv);
        fail("step: %s", argv[0]);
    }
    add(program);
    if (ptrace(PTRACE_SEIZE, program, NULL, (void *)options) < 0)
        exit(77);
    if (write(go[1], "", 1) != 1)
        fail("step: pipe");
    close(go[0]);
    close(go[1]);
}

/* What it has open, for whoever wonders what it waits for. */
static void say_open(pid_t tid)
{
    char command[160];

    fflush(stdout);
    snprintf(command, sizeof(command),
             "cd /proc/%d/fd && for f in *; do echo \"  $f $(readlink $f) $(grep -E 'flags|lock' "
             "../fdinfo/$f | tr '\\n' ' ')\"; done 1>&2",
             tid);
    if (system(command) != 0)
        printf("it is gone\n");
}

static void say_late(void)
{
    for (struct task *t = tasks; t < tasks + TASKS; t++) {
        if (t->tid == 0)
            continue;
        const char *state = strstr(proc(t->tid, "status"), "State:");
        printf("late %c %d: %.*s; ", t->role, t->tid, state == NULL ? 0 : (int)strcspn(state, "\n"),
               state);
        printf("%s\n", proc(t->tid, "syscall"));
        say_open(t->tid);
    }
}

int main(int argc, char **argv)
{
    struct itimerval every = {{0, 2000}, {0, 2000}};
    struct sigaction ticking = {.sa_handler = tick};
    int result = 0, status;
    bool over = false;
    double deadline;

    if (argc < 5)
        fail("usage: step DIRECTORY SECONDS EVENTS PROGRAM ARGUMENT...");
    directory = argv[1];
    deadline = now() + atof(argv[2]);
    parse(argv[3]);
    start(argv + 4);
    sigaction(SIGALRM, &ticking, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0 && errno == ECHILD)
            break;
        if (tid > 0 && WIFSTOPPED(status)) {
            stop_of(find(tid) != NULL ? find(tid) : add(tid), status);
        } else if (tid > 0) {
            if (tid == program)
                result = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
            ended |= tid == program;
            reader = tid == reader ? 0 : reader;
            if (find(tid) != NULL)
                memset(find(tid), 0, sizeof(struct task));
        }
        if (!over && now() > deadline) {
            say_late();
            over = true;
        }
        if (stopped && (ended || now() > continue_at)) {
            send_to('k', SIGCONT);
            send_to('w', SIGCONT);
            stopped = false;
            usleep(ended ? CONTINUED_US : 0);
        }
        if (ended && reader == 0 && tid < 0 && !any('p'))
            over |= !((killed_program || getenv("PORTUS_STORE") != NULL) && agent_holds());
        if (over && reader != 0)
            kill(reader, SIGKILL);
        for (struct task *t = tasks; over && t < tasks + TASKS; t++)
            if (t->tid != 0)
                kill(t->group, SIGKILL);
    }
    for (const char *role = "pkwd"; *role != '\0'; role++)
        printf("stops %c %lu\n", *role, stops[(int)*role]);
    printf("ended %d\n", result);
    return 0;
}
