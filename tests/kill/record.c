/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record.c -- runs a program, and pauses it after each call that may change a file
 *
 *     record COMMAND...        writes a byte to descriptor 3, then reads one from 4;
 *                              exit status 77: ptrace is not allowed here
 *
 * Whoever holds the other ends looks at the disk meanwhile: so he gets all states that
 * the program passes through. Children and threads are followed; they are not paused
 * when another is. PTRACE_GET_SYSCALL_INFO is the same on all machines (ptrace(2)).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLLOWED                                                                                   \
    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |      \
     PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

static bool changes(uint64_t number)
{
    static const uint16_t numbers[] = {
        SYS_openat,    SYS_write,    SYS_writev,     SYS_pwrite64,  SYS_pwritev,
        SYS_pwritev2,  SYS_ftruncate, SYS_truncate,  SYS_fallocate, SYS_sendfile,
        SYS_copy_file_range, SYS_renameat, SYS_renameat2, SYS_linkat, SYS_symlinkat,
        SYS_unlinkat,  SYS_mkdirat,
#ifdef SYS_open
        SYS_open,      SYS_creat,    SYS_rename,     SYS_link,      SYS_symlink,
        SYS_unlink,    SYS_mkdir,    SYS_rmdir,
#endif
    };

    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i] == number)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    static uint64_t entered[1 << 22]; /* of each thread, the call that it is in */
    pid_t first, pid;
    int status, result = 1;

    if (argc < 2)
        return 2;
    first = fork();
    if (first == 0) {
        close(3), close(4);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(77);
        raise(SIGSTOP);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    waitpid(first, &status, 0);
    if (WIFEXITED(status) || ptrace(PTRACE_SETOPTIONS, first, NULL, FOLLOWED) < 0) {
        kill(first, SIGKILL);
        return 77; /* not allowed here */
    }
    ptrace(PTRACE_SYSCALL, first, NULL, NULL);
    while ((pid = waitpid(-1, &status, __WALL)) > 0) {
        struct __ptrace_syscall_info info;
        unsigned long deliver = 0;
        char byte = 0;

        if (!WIFSTOPPED(status)) {
            if (pid == first)
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0) {
                if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
                    entered[pid] = info.entry.nr;
                else if (info.op == PTRACE_SYSCALL_INFO_EXIT && !info.exit.is_error &&
                         changes(entered[pid]) &&
                         (write(3, &byte, 1) != 1 || read(4, &byte, 1) != 1))
                    return 3;
            }
        } else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP) {
            deliver = (unsigned long)WSTOPSIG(status);
        }
        ptrace(PTRACE_SYSCALL, pid, NULL, deliver);
    }
    return result;
}
