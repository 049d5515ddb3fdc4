/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deny.c -- runs a program under a seccomp filter that refuses some system calls
 * run: tool
 *
 *     deny ERRNO CALL... -- PROGRAM ARGUMENT...
 *
 * CALL is a name of the list below, or leases (F_SETLEASE only). It and its
 * children get ERRNO from these calls.
 */
#include "helper.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const struct {
    const char *name;
    int number;
} calls[] = {{"memfd_create", SYS_memfd_create}, {"sendmsg", SYS_sendmsg},
             {"pidfd_open", SYS_pidfd_open},     {"pidfd_send_signal", SYS_pidfd_send_signal},
             {"fallocate", SYS_fallocate},       {"socket", SYS_socket},
             {"connect", SYS_connect},           {"eventfd2", SYS_eventfd2},
             {"clone3", SYS_clone3},             {"close_range", SYS_close_range},
             {"statx", SYS_statx},               {"madvise", SYS_madvise},
             {"fcntl", SYS_fcntl},               {"setsid", SYS_setsid},
             {"pwritev2", SYS_pwritev2},         {"prctl", SYS_prctl}};

int main(int argc, char **argv)
{
    struct sock_filter code[64];
    int n = 0, i = 2;
    check(argc > 4);
    uint32_t refuse = SECCOMP_RET_ERRNO | (uint32_t)atoi(argv[1]);
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                 offsetof(struct seccomp_data, nr));
        if (strcmp(argv[i], "leases") == 0) {
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_fcntl, 0, 3);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                     offsetof(struct seccomp_data, args[1]));
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ, F_SETLEASE, 0, 1);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_RET, refuse);
            continue;
        }
        int number = -1;
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
            if (strcmp(calls[c].name, argv[i]) == 0)
                number = calls[c].number;
        check(number >= 0 && n < 56);
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ, (uint32_t)number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET, refuse);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {(unsigned short)n, code};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0)
        _exit(77);
    execvp(argv[i + 1], argv + i + 1);
    return 127;
}
