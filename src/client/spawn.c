/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spawn.c -- starts the agent, and others of ours, unseen by the program
 *
 * A fork would copy the page tables of a trainer that holds a hundred GiB, and
 * a child would end in the program's wait(). So two vfork-like clones: the first
 * has no exit signal and ends at once, the second is thereby orphaned and
 * executes the program. Both run on this process's memory while the calling thread
 * is suspended, so they only make system calls and write to one structure. (execve
 * sets the exit signal back to SIGCHLD, which is why one clone is not enough.)
 */
#include "client/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK (64u * 1024u)
#define VARIABLES 4096

extern char **environ;

struct plan {
    const char *const *arguments;
    int output[3]; /* what becomes of descriptors 0 to 2; -1: /dev/null */
    char *stack;   /* of two halves: the first clone's, the second's */
    int error;     /* errno of execve */
    char *environment[VARIABLES + 2];
    char job[1100];
};

static int run(void *argument)
{
    struct plan *plan = argument;
    sigset_t none;
    int null = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);

    sigemptyset(&none);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, _NSIG / 8);
    /* What the loader has to say, if it fails, must not be among what the program says. */
    for (int fd = 0; fd < 3; fd++) {
        int from = plan->output[fd] >= 0 ? plan->output[fd] : null;

        if (from >= 0)
            syscall(SYS_dup3, from, fd, 0);
    }
    syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
    syscall(SYS_execve, plan->arguments[0], plan->arguments, plan->environment);
    plan->error = errno;
    syscall(SYS_exit_group, 127);
    return 0;
}

static int orphan(void *argument)
{
    struct plan *plan = argument;

    if (clone(run, plan->stack + 2 * STACK, CLONE_VM | CLONE_VFORK, plan) < 0)
        plan->error = errno;
    syscall(SYS_exit_group, 0);
    return 0;
}

int portus_spawn(const char *const *arguments, const char *job, int output, int errors)
{
    size_t head = (sizeof(struct plan) + 63) & ~(size_t)63, size = head + 2 * STACK;
    sigset_t all, before;
    struct plan *plan;
    unsigned count = 0;
    int error, child;

    plan = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (plan == MAP_FAILED)
        return -errno;
    plan->arguments = arguments;
    plan->output[0] = -1;
    plan->output[1] = output;
    plan->output[2] = errors;
    plan->stack = (char *)plan + head;
    for (char **variable = environ; variable != NULL && *variable != NULL && count < VARIABLES;
         variable++)
        if (strncmp(*variable, "LD_PRELOAD=", 11) != 0 &&
            strncmp(*variable, "PORTUS_JOB=", 11) != 0)
            plan->environment[count++] = *variable;
    snprintf(plan->job, sizeof(plan->job), "PORTUS_JOB=%s", job);
    plan->environment[count] = plan->job;

    /* No handler of the program may run in the clones, on our small stacks. */
    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, _NSIG / 8);
    child = clone(orphan, plan->stack + STACK, CLONE_VM | CLONE_VFORK, plan);
    error = child < 0 ? -errno : 0;
    if (error == 0) {
        while (syscall(SYS_wait4, child, NULL, __WCLONE, NULL) < 0 && errno == EINTR)
            ;
        error = -plan->error;
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, _NSIG / 8);
    munmap(plan, size);
    return error;
}
