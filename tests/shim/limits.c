/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits.c -- little address space (RLIMIT_AS), locked memory (mlockall), no core, few processes
 *
 * Right: where there is no room for a ring the file is written as usual.
 * run: timeout=30
 */
#include "helper.h"
#include <sys/mman.h>
#include <sys/resource.h>

int main(void)
{
    fflush(stdout);
    for (int kind = 0; kind < 4; kind++) {
        pid_t pid = must(fork());
        if (pid == 0) {
            char name[16];
            struct rlimit l = {(rlim_t)64 << 20, (rlim_t)64 << 20}, none = {1, 1};
            snprintf(name, sizeof name, "%d.ckpt", kind);
            if (kind == 0)
                must(setrlimit(RLIMIT_AS, &l));
            if (kind == 1 && mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
                exit(errno == ENOMEM || errno == EPERM ? 0 : 1);
            if (kind == 2)
                must(setrlimit(RLIMIT_NPROC, &none)), must(setrlimit(RLIMIT_STACK, &l));
            if (kind == 3)
                must(setrlimit(RLIMIT_DATA, &l)), must(setrlimit(RLIMIT_MEMLOCK, &none));
            for (int i = 0; i < 4; i++) {
                save(name, BIG + (size_t)i, (uint64_t)i);
                must(rename(name, "x"));
                must(rename("x", name));
            }
            exit(0);
        }
        reap("limited", pid);
    }
    show("0.ckpt");
    return 0;
}
