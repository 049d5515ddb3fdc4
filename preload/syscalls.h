/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syscalls.h -- system calls that have no function of libc, or not in every libc
 *
 * As syscall(2): -1 and errno.
 */
#ifndef PORTUS_PRELOAD_SYSCALLS_H
#define PORTUS_PRELOAD_SYSCALLS_H

#include <linux/openat2.h>
#include <stddef.h>
#include <sys/stat.h>

/* hooks_open.c */
int syscall_openat2(int at, const char *path, const struct open_how *how, size_t size);

/* hooks_stat.c: one of the stat calls, by its number; status: the one of a to d that it fills. */
long syscall_stat(long number, long a, long b, long c, long d, struct stat *status);

#endif
