/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inject.c -- runs a program and all that it starts, and makes one system call fail
 *
 *     inject [-s | -d] LOG SECONDS FAULT PROGRAM [ARGUMENT...]
 *
 * FAULT is `none`, or ROLE:STEP:CALL:RAW:N:ERRNO, with a `+` behind it if every such call
 * from the Nth on fails. What is counted, and the words of LOG:
 *
 *     calls ROLE STEP CALL RAW COUNT    how often it was made
 *     hit ROLE STEP CALL ARGUMENTS      the first that failed, at which step of the program
 *     agent PID                         a process of an agent that was there at the end
 *     late                              no end within SECONDS: all were killed
 *     store PID STATUS                  how a portusd ended that was told to, or -1: not within 15 s
 *     status N                          the program's, as of wait(2)
 *
 * ROLE: p the program's first thread, t its others, c its children, s what starts an agent,
 * k its keeper, w its worker, d a portusd, from its main on. With -d the program has
 * that role; with -s it goes on, when the program has ended, until portusd has nothing to do, and
 * tells it to end. STEP counts the program's prctl(MARK, step) (only of p; else
 * -1). RAW: 1 for calls of p that come from where its marks come from, libc's syscall().
 *
 * A failing call is not made, but for close, which closes the descriptor even so.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MARK 0x504f5254
#define END 1000 /* the step at which the program says its results, which must come through */
#define TASKS 256
#define COUNTS 4096
#define QUIET_US 300000 /* so long nothing is done: there is nothing to do */
#define ENDS_S 15       /* a portusd ends within, when it is told to */
#define OPTIONS                                                                                    \
    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |      \
     PTRACE_O_TRACEEXEC)

static const struct {
    int number;
    const char *name;
} calls[] = {
#define _(name) {SYS_##name, #name},
    /* clang-format off */
    _(accept4) _(bind) _(brk) _(chmod) _(clock_nanosleep) _(clone) _(clone3) _(close) _(close_range)
    _(connect) _(dup2) _(eventfd2) _(execve) _(fallocate) _(fchdir) _(fchmod) _(fchown) _(fcntl)
    _(fdatasync) _(flock) _(fstat) _(fstatfs) _(fsync) _(ftruncate) _(futex) _(getdents64)
    _(getrandom) _(getsockname) _(getsockopt) _(ioctl) _(link) _(listen) _(lseek) _(madvise)
    _(memfd_create) _(mkdir) _(mmap) _(mprotect) _(msync) _(munmap) _(name_to_handle_at)
    _(newfstatat) _(openat) _(pidfd_open) _(poll) _(pread64) _(process_vm_readv) _(pwrite64)
    _(pwritev) _(pwritev2) _(read) _(readlink) _(recvfrom) _(recvmsg) _(rename) _(renameat2)
    _(rt_sigaction) _(rt_sigprocmask) _(rt_sigtimedwait) _(sendmsg) _(sendto) _(setsockopt)
    _(setxattr) _(signalfd4) _(socket) _(statfs) _(statx) _(sync_file_range) _(unlink) _(utimensat)
    _(wait4) _(write) _(writev)
    /* clang-format on */
};

struct task {
    pid_t pid; /* 0: free */
    char role; /* 0: stopped at its birth, until its parent tells whose child it is */
    bool failing, loaded;
    unsigned long end_wanted; /* by a brk that fails */
};

struct point {
    char role;
    int step, number, raw;
    unsigned count;
};

static struct task tasks[TASKS];
static struct point counts[COUNTS], fault;
static unsigned counted;
static int fault_error, step = -1;
static bool always, hit;
static unsigned long marks_at;
static FILE *out;
static volatile sig_atomic_t late;

static void on_alarm(int number)
{
    late = 1;
}

static const char *name_of(int number)
{
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (calls[i].number == number)
            return calls[i].name;
    return "-";
}

static struct task *find(pid_t pid)
{
    struct task *free = NULL;

    for (unsigned i = 0; i < TASKS; i++) {
        if (tasks[i].pid == pid)
            return &tasks[i];
        if (tasks[i].pid == 0 && free == NULL)
            free = &tasks[i];
    }
    if (free == NULL)
        exit(2);
    *free = (struct task){.pid = pid};
    return free;
}

/* Counts the call that a task enters; whether it is to fail. Those without a name count as one. */
static bool enters(struct task *task, const struct __ptrace_syscall_info *info)
{
    struct point now = {.role = task->role, .step = -1, .number = (int)info->entry.nr};
    unsigned i;

    if (task->role == 'p') {
        if (now.number == SYS_prctl && info->entry.args[0] == MARK) {
            step = (int)info->entry.args[1];
            marks_at = info->instruction_pointer;
        }
        if (marks_at == 0)
            return false; /* the loader's, before the program is there */
        now.step = step;
        now.raw = info->instruction_pointer == marks_at;
    }
    if (task->role == 'd' && !task->loaded) {
        /* The first that both do, in portus_log_setup: the loader and the libraries are through. */
        task->loaded = now.number == SYS_fcntl && info->entry.args[0] == STDERR_FILENO;
        return false;
    }
    if (now.number == SYS_futex && (info->entry.args[1] & 0x7f) % 9 != 0)
        return false; /* only those that wait can fail */
    for (i = 0; i < counted; i++)
        if (counts[i].role == now.role && counts[i].step == now.step &&
            counts[i].number == now.number && counts[i].raw == now.raw)
            break;
    if (i == counted) {
        if (counted == COUNTS)
            exit(2);
        counts[counted++] = now;
    }
    counts[i].count++;
    if (now.step == END && now.number == SYS_write && !now.raw)
        return false;
    if (now.role != fault.role || now.number != fault.number || now.raw != fault.raw)
        return false;
    if (now.step == fault.step && counts[i].count == fault.count)
        return true;
    return always && (hit || (now.step == fault.step && counts[i].count > fault.count));
}

static void note_hit(const struct task *task, const struct __ptrace_syscall_info *info)
{
    const unsigned long *args = (const unsigned long *)info->entry.args;
    char link[64], path[256] = "";

    snprintf(link, sizeof(link), "/proc/%d/fd/%d", task->pid, (int)args[0]);
    if (readlink(link, path, sizeof(path) - 1) < 0)
        path[0] = '\0';
    fprintf(out, "hit %c %d %s(%#lx, %#lx, %#lx) %s\n", task->role, step,
            name_of((int)info->entry.nr), args[0], args[1], args[2], path);
    hit = true;
}

static void at_call(struct task *task)
{
    struct __ptrace_syscall_info info;

    if (ptrace(PTRACE_GET_SYSCALL_INFO, task->pid, sizeof(info), &info) <= 0)
        return;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        task->failing = enters(task, &info);
        if (task->failing && !hit)
            note_hit(task, &info);
        if (task->failing && info.entry.nr == SYS_brk) {
            /* It fails by saying where the end is, as it does when asked for 0. */
            task->end_wanted = info.entry.args[0];
            ptrace(PTRACE_POKEUSER, task->pid, offsetof(struct user, regs.rdi), 0l);
        } else if (task->failing && info.entry.nr != SYS_close)
            ptrace(PTRACE_POKEUSER, task->pid, offsetof(struct user, regs.orig_rax), -1l);
    } else if (task->failing) {
        task->failing = false;
        if (task->end_wanted != 0)
            ptrace(PTRACE_POKEUSER, task->pid, offsetof(struct user, regs.rdi), task->end_wanted);
        else
            ptrace(PTRACE_POKEUSER, task->pid, offsetof(struct user, regs.rax),
                   (long)-fault_error);
        task->end_wanted = 0;
    }
}

/* The role of a new task, by its parent's and the way that it was made. */
static char born(char parent, int event)
{
    if (parent == 'k' || parent == 'w')
        return 'w';
    if (parent == 'd')
        return 'd';
    if (event == PTRACE_EVENT_VFORK)
        return 's';
    return event == PTRACE_EVENT_CLONE ? 't' : 'c';
}

static void stopped(pid_t pid, int status)
{
    struct task *task = find(pid), *child;
    int signal = WSTOPSIG(status), event = status >> 16;
    unsigned long message;

    if (signal == (SIGTRAP | 0x80)) {
        at_call(task);
        signal = 0;
    } else if (event == PTRACE_EVENT_STOP) {
        if (task->role == 0)
            return;
        signal = 0;
    } else if (event != 0) {
        if (event == PTRACE_EVENT_EXEC) {
            task->role = task->role == 's' ? 'k' : task->role == 'w' ? 'd' : task->role;
        } else if (ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) == 0) {
            child = find((pid_t)message);
            child->role = born(task->role, event);
            child->loaded = task->loaded;
            ptrace(PTRACE_SYSCALL, child->pid, 0, 0); /* fails if it has not stopped yet */
        }
        signal = 0;
    }
    ptrace(PTRACE_SYSCALL, pid, 0, signal);
}

static void parse(char *text)
{
    char name[32];

    if (strcmp(text, "none") == 0)
        return;
    if (sscanf(text, "%c:%d:%31[^:]:%d:%u:%d", &fault.role, &fault.step, name, &fault.raw,
               &fault.count, &fault_error) != 6)
        exit(2);
    always = text[strlen(text) - 1] == '+';
    fault.number = -1;
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].name, name) == 0)
            fault.number = calls[i].number;
}

/* Tells all that have that role; whether there is one. */
static bool tell(char role, int signal)
{
    bool there = false;

    for (unsigned i = 0; i < TASKS; i++) {
        if (tasks[i].pid == 0 || tasks[i].role != role)
            continue;
        there = true;
        if (signal != 0)
            kill(tasks[i].pid, signal);
    }
    return there;
}

static void wait_for(time_t seconds, suseconds_t microseconds)
{
    const struct itimerval timer = {{seconds, microseconds}, {seconds, microseconds}};

    late = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Takes one stop or end. The task that has ended, or 0; -1: there is none any more. */
static pid_t turn(int *status)
{
    pid_t pid = waitpid(-1, status, __WALL);

    if (pid > 0 && WIFSTOPPED(*status)) {
        stopped(pid, *status);
        return 0;
    }
    return pid < 0 && errno == EINTR ? 0 : pid;
}

/* The agent gives portusd what it has, then that is told to end. */
static void see_store_end(void)
{
    time_t since = time(NULL);
    bool told = false;
    int status;

    while (!told || (tell('d', 0) && time(NULL) - since < ENDS_S)) {
        pid_t pid;

        wait_for(0, QUIET_US);
        pid = turn(&status);
        if (pid < 0)
            return;
        if (pid > 0) {
            if (find(pid)->role == 'd')
                fprintf(out, "store %d %d\n", pid, status);
            find(pid)->pid = 0;
        } else if (!told && (late || time(NULL) - since > ENDS_S)) {
            told = true;
            since = time(NULL);
            tell('d', SIGTERM);
        }
    }
    if (tell('d', SIGKILL))
        fprintf(out, "store 0 -1\n");
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_alarm};
    int status, result = -1;
    char option = argc > 1 && argv[1][0] == '-' ? argv[1][1] : '\0';
    pid_t program, pid;

    argv += option != '\0';
    argc -= option != '\0';
    if (argc < 5 || (out = fopen(argv[1], "we")) == NULL)
        return 2;
    parse(argv[3]);
    program = fork();
    if (program == 0) {
        raise(SIGSTOP);
        execv(argv[4], argv + 4);
        _exit(127);
    }
    waitpid(program, &status, WUNTRACED);
    find(program)->role = option == 'd' ? 'd' : 'p';
    if (ptrace(PTRACE_SEIZE, program, 0, OPTIONS) < 0)
        return 2;
    kill(program, SIGCONT);
    sigaction(SIGALRM, &action, NULL);
    wait_for(atoi(argv[2]), 0);
    while (result == -1 && !late) {
        pid = turn(&status);
        if (pid == program)
            result = status;
        if (pid > 0)
            find(pid)->pid = 0;
    }
    if (late) {
        for (unsigned i = 0; i < TASKS; i++)
            if (tasks[i].pid != 0)
                kill(tasks[i].pid, SIGKILL);
        fprintf(out, "late\n");
    } else if (option == 's') {
        see_store_end();
    }
    for (unsigned i = 0; i < counted; i++)
        fprintf(out, "calls %c %d %s %d %u\n", counts[i].role, counts[i].step,
                name_of(counts[i].number), counts[i].raw, counts[i].count);
    for (unsigned i = 0; i < TASKS; i++)
        if (tasks[i].pid != 0 && (tasks[i].role == 'k' || tasks[i].role == 'w'))
            fprintf(out, "agent %d\n", tasks[i].pid);
    fprintf(out, "status %d\n", result);
    return fclose(out) == 0 ? 0 : 2; /* what is still traced goes on by itself */
}
