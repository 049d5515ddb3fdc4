/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_process.c -- how a process becomes two, becomes another, or ends
 *
 * A child has the same descriptions, and writes to them that no log of ours sees:
 * what is open is released before there is one. A program does not end, and is not
 * replaced, before its bytes are in their files.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

#include "real.h"
#include "restore.h"
#include "shim.h"
#include "versions.h"

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[],
                       char *const environment[])
{
    shim_release_open();
    shim_wait_executable(AT_FDCWD, path, 0);
    return real_posix_spawn(pid, path, actions, attributes, arguments, environment);
}

EXPORT int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[],
                        char *const environment[])
{
    shim_release_open();
    shim_wait_executable(AT_FDCWD, path, 0);
    return real_posix_spawnp(pid, path, actions, attributes, arguments, environment);
}

/*
 * vfork returns twice on one stack frame, which no C function may leave in between:
 * so ours prepares, then jumps to the real one with the caller's return address.
 */
__attribute__((used, visibility("hidden"))) void *portus_before_vfork(void);
void *portus_before_vfork(void)
{
    static void *_Atomic found; /* real_vfork would be called, not jumped to, at first */

    if (found == NULL)
        found = real_find("vfork");
    shim_release_open();
    restore_on(); /* read by us: the child's pid would be taken for ours */
    return found;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    sub $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call portus_before_vfork\n"
        "    add $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    jmp *%rax\n"
        "    .cfi_endproc\n"
        ".size vfork, .-vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, %function\n"
        "vfork:\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    bl portus_before_vfork\n"
        "    ldp x29, x30, [sp], #16\n"
        "    br x0\n"
        ".size vfork, .-vfork\n");
#else
#error "vfork needs a trampoline on this machine"
#endif

/* Since glibc 2.34; fork without its handlers. */
pid_t _Fork(void);

EXPORT pid_t _Fork(void)
{
    static pid_t (*_Atomic found)(void);

    if (found == NULL)
        found = (pid_t(*)(void))(uintptr_t)real_find("_Fork");
    shim_share_open();
    return found != NULL ? found() : (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L);
}

/* Its optional arguments are passed on as they come. */
EXPORT int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
    va_list list;
    void *more[3];

    if (!(flags & CLONE_THREAD))
        shim_share_open();
    va_start(list, argument);
    for (unsigned i = 0; i < 3; i++)
        more[i] = va_arg(list, void *);
    va_end(list);
    return real_clone(function, stack, flags, argument, more[0], more[1], more[2]);
}

/* Where the shim itself starts an agent (--wrap in the Makefile). */
int __wrap_clone(int (*function)(void *), void *stack, int flags, void *argument, ...);
int __wrap_clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
    return real_clone(function, stack, flags, argument, NULL, NULL, NULL);
}

/* A program that becomes another cannot be told any more. */
#define COMPLETE()                                                                                 \
    do {                                                                                           \
        int error_ = shim_release_all();                                                           \
        if (error_ != 0) {                                                                         \
            errno = -error_;                                                                       \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
    COMPLETE();
    shim_wait_executable(AT_FDCWD, path, 0);
    return real_execve(path, arguments, environment);
}

EXPORT int execv(const char *path, char *const arguments[])
{
    COMPLETE();
    shim_wait_executable(AT_FDCWD, path, 0);
    return real_execv(path, arguments);
}

EXPORT int execvp(const char *file, char *const arguments[])
{
    COMPLETE();
    shim_wait_executable(AT_FDCWD, file, 0);
    return real_execvp(file, arguments);
}

EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[])
{
    COMPLETE();
    shim_wait_executable(AT_FDCWD, file, 0);
    return real_execvpe(file, arguments, environment);
}

EXPORT int fexecve(int fd, char *const arguments[], char *const environment[])
{
    COMPLETE();
    shim_wait_executable(fd, "", AT_EMPTY_PATH);
    return real_fexecve(fd, arguments, environment);
}

/* Since glibc 2.34 */
int execveat(int at, const char *path, char *const arguments[], char *const environment[],
             int flags);

EXPORT int execveat(int at, const char *path, char *const arguments[], char *const environment[],
                    int flags)
{
    COMPLETE();
    shim_wait_executable(at, path, flags);
    return (int)syscall(SYS_execveat, at, path, arguments, environment, flags);
}

/*
 * The variadic forms become the others. The kernel's limit on arguments is far
 * above what a program writes out; more than fit here is E2BIG as there.
 */
#define ARGUMENTS_MAX 4096

static int collect(char **arguments, const char *first, va_list rest)
{
    int count = 0;

    for (const char *argument = first; argument != NULL; argument = va_arg(rest, const char *)) {
        if (count == ARGUMENTS_MAX) {
            errno = E2BIG;
            return -1;
        }
        arguments[count++] = (char *)argument;
    }
    arguments[count] = NULL;
    return count;
}

EXPORT int execl(const char *path, const char *first, ...)
{
    char *arguments[ARGUMENTS_MAX + 1];
    va_list rest;
    int count;

    va_start(rest, first);
    count = collect(arguments, first, rest);
    va_end(rest);
    return count < 0 ? -1 : execv(path, arguments);
}

EXPORT int execlp(const char *file, const char *first, ...)
{
    char *arguments[ARGUMENTS_MAX + 1];
    va_list rest;
    int count;

    va_start(rest, first);
    count = collect(arguments, first, rest);
    va_end(rest);
    return count < 0 ? -1 : execvp(file, arguments);
}

EXPORT int execle(const char *path, const char *first, ...)
{
    char *arguments[ARGUMENTS_MAX + 1], **environment;
    va_list rest;
    int count;

    va_start(rest, first);
    count = collect(arguments, first, rest);
    environment = va_arg(rest, char **);
    va_end(rest);
    return count < 0 ? -1 : execve(path, arguments, environment);
}

/* A shell gets our open descriptions, and may be told to read our files. */
EXPORT int system(const char *command)
{
    shim_release_open();
    return real_system(command);
}

EXPORT FILE *popen(const char *command, const char *mode)
{
    shim_release_open();
    return real_popen(command, mode);
}

EXPORT void _exit(int status)
{
    real__exit(shim_end(status));
    __builtin_unreachable();
}

EXPORT void _Exit(int status)
{
    real__Exit(shim_end(status));
    __builtin_unreachable();
}

EXPORT void quick_exit(int status)
{
    int error = shim_release_all(); /* its handlers still run, and may save */

    real_quick_exit(error != 0 && status == 0 ? EX_IOERR : status);
    __builtin_unreachable();
}

EXPORT void abort(void)
{
    shim_release_all(); /* SIGABRT may be handled */
    real_abort();
    __builtin_unreachable();
}
