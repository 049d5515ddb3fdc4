/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hooks_syscall.c -- system calls that a program makes by libc's syscall()
 *
 * Runtimes of other languages, and programs that want a call which their libc is too
 * old to have, come this way. What would concern a file of ours goes to the function
 * of that name; all else goes to the kernel at once, without a look for any symbol:
 * allocators use syscall() while they set themselves up, because it calls nobody.
 *
 * The shim's own calls are bound to __wrap_syscall by the linker (--wrap in the
 * Makefile), so that they never come back here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "file.h"
#include "real.h"
#include "shim.h"
#include "syscalls.h"

/*
 * CALL(number, when, call): OF_FILE, when the first argument is a descriptor that the
 * table knows; ALWAYS.
 */
#define CALLS                                                                                      \
    CALL(write, OF_FILE, write((int)a, (const void *)b, (size_t)c))                                \
    CALL(writev, OF_FILE, writev((int)a, (const struct iovec *)b, (int)c))                         \
    CALL(pwrite64, OF_FILE, pwrite((int)a, (const void *)b, (size_t)c, d))                         \
    CALL(pwritev, OF_FILE, pwritev((int)a, (const struct iovec *)b, (int)c, d))                    \
    CALL(pwritev2, OF_FILE, pwritev2((int)a, (const struct iovec *)b, (int)c, d, (int)f))          \
    CALL(read, OF_FILE, read((int)a, (void *)b, (size_t)c))                                        \
    CALL(readv, OF_FILE, readv((int)a, (const struct iovec *)b, (int)c))                           \
    CALL(pread64, OF_FILE, pread((int)a, (void *)b, (size_t)c, d))                                 \
    CALL(preadv, OF_FILE, preadv((int)a, (const struct iovec *)b, (int)c, d))                      \
    CALL(preadv2, OF_FILE, preadv2((int)a, (const struct iovec *)b, (int)c, d, (int)f))            \
    CALL(lseek, OF_FILE, lseek((int)a, b, (int)c))                                                 \
    CALL(ftruncate, OF_FILE, ftruncate((int)a, b))                                                 \
    CALL(fallocate, OF_FILE, fallocate((int)a, (int)b, c, d))                                      \
    CALL(close, OF_FILE, close((int)a))                                                            \
    CALL(dup, OF_FILE, dup((int)a))                                                                \
    CALL(dup3, ALWAYS, dup3((int)a, (int)b, (int)c))                                               \
    CALL(close_range, ALWAYS, close_range((unsigned)a, (unsigned)b, (int)c))                       \
    CALL(fcntl, OF_FILE, fcntl((int)a, (int)b, c))                                                 \
    CALL(flock, OF_FILE, flock((int)a, (int)b))                                                    \
    CALL(ioctl, OF_FILE, ioctl((int)a, (unsigned long)b, c))                                       \
    CALL(sync_file_range, OF_FILE, sync_file_range((int)a, b, c, (unsigned)d))                     \
    CALL(fsync, ALWAYS, fsync((int)a))                                                             \
    CALL(fdatasync, ALWAYS, fdatasync((int)a))                                                     \
    CALL(syncfs, ALWAYS, syncfs((int)a))                                                           \
    CALL(sync, ALWAYS, (sync(), 0))                                                                \
    CALL(sendfile, ALWAYS, sendfile((int)a, (int)b, (off_t *)c, (size_t)d))                        \
    CALL(splice, ALWAYS, splice((int)a, (off_t *)b, (int)c, (off_t *)d, (size_t)e, (unsigned)f))   \
    CALL(copy_file_range, ALWAYS,                                                                  \
         copy_file_range((int)a, (off_t *)b, (int)c, (off_t *)d, (size_t)e, (unsigned)f))          \
    CALL(sendmsg, ALWAYS, sendmsg((int)a, (const struct msghdr *)b, (int)c))                       \
    CALL(sendmmsg, ALWAYS, sendmmsg((int)a, (struct mmsghdr *)b, (unsigned)c, (int)d))             \
    CALL(openat, ALWAYS, openat((int)a, (const char *)b, (int)c, (mode_t)d))                       \
    CALL(openat2, ALWAYS,                                                                          \
         syscall_openat2((int)a, (const char *)b, (const struct open_how *)c, (size_t)d))          \
    CALL(fstat, ALWAYS, syscall_stat(number, a, b, c, d, (struct stat *)b))                        \
    CALL(newfstatat, ALWAYS, syscall_stat(number, a, b, c, d, (struct stat *)c))                   \
    CALL(statx, ALWAYS, statx((int)a, (const char *)b, (int)c, (unsigned)d, (struct statx *)e))    \
    CALL(truncate, ALWAYS, truncate((const char *)a, b))                                           \
    CALL(utimensat, ALWAYS,                                                                        \
         set_times((int)a, (const char *)b, (const struct timespec *)c, (int)d))                   \
    CALL(fchmod, OF_FILE, fchmod((int)a, (mode_t)b))                                               \
    CALL(fchmodat, ALWAYS, fchmodat((int)a, (const char *)b, (mode_t)c, 0))                        \
    CALL(fchown, OF_FILE, fchown((int)a, (uid_t)b, (gid_t)c))                                      \
    CALL(fchownat, ALWAYS, fchownat((int)a, (const char *)b, (uid_t)c, (gid_t)d, (int)e))          \
    CALL(setxattr, ALWAYS,                                                                         \
         setxattr((const char *)a, (const char *)b, (const void *)c, (size_t)d, (int)e))           \
    CALL(lsetxattr, ALWAYS,                                                                        \
         lsetxattr((const char *)a, (const char *)b, (const void *)c, (size_t)d, (int)e))          \
    CALL(fsetxattr, OF_FILE,                                                                       \
         fsetxattr((int)a, (const char *)b, (const void *)c, (size_t)d, (int)e))                   \
    CALL(removexattr, ALWAYS, removexattr((const char *)a, (const char *)b))                       \
    CALL(lremovexattr, ALWAYS, lremovexattr((const char *)a, (const char *)b))                     \
    CALL(fremovexattr, OF_FILE, fremovexattr((int)a, (const char *)b))                             \
    CALL(renameat2, ALWAYS,                                                                        \
         renameat2((int)a, (const char *)b, (int)c, (const char *)d, (unsigned)e))                 \
    CALL(linkat, ALWAYS, linkat((int)a, (const char *)b, (int)c, (const char *)d, (int)e))         \
    CALL(symlinkat, ALWAYS, symlinkat((const char *)a, (int)b, (const char *)c))                   \
    CALL(unlinkat, ALWAYS, unlinkat((int)a, (const char *)b, (int)c))                              \
    CALL(mkdirat, ALWAYS, mkdirat((int)a, (const char *)b, (mode_t)c))                             \
    CALL(umount2, ALWAYS, umount2((const char *)a, (int)b))                                        \
    CALL(execve, ALWAYS, execve((const char *)a, (char *const *)b, (char *const *)c))              \
    CALL(execveat, ALWAYS,                                                                         \
         execveat((int)a, (const char *)b, (char *const *)c, (char *const *)d, (int)e))            \
    CALL(exit_group, ALWAYS, (_exit((int)a), 0))                                                   \
    CALL(madvise, ALWAYS, madvise((void *)a, (size_t)b, (int)c))                                   \
    CALL(process_madvise, ALWAYS,                                                                  \
         process_madvise((int)a, (const struct iovec *)b, (size_t)c, (int)d, (unsigned)e))         \
    CALL(mprotect, ALWAYS, mprotect((void *)a, (size_t)b, (int)c))                                 \
    CALL(pkey_mprotect, ALWAYS, pkey_mprotect((void *)a, (size_t)b, (int)c, (int)d))               \
    CALL(mremap, ALWAYS, (long)mremap((void *)a, (size_t)b, (size_t)c, (int)d, (void *)e))         \
    CALL(vmsplice, ALWAYS, vmsplice((int)a, (const struct iovec *)b, (size_t)c, (unsigned)d))      \
    CALL(io_submit, ALWAYS, released() ? RAW : -1)                                                 \
    CALL(io_uring_enter, ALWAYS, released() ? RAW : -1)

/* What only old machines still have: later ones have the general calls above. */
#ifdef SYS_open
#define OLD_CALLS                                                                                  \
    CALL(open, ALWAYS, open((const char *)a, (int)b, (mode_t)c))                                   \
    CALL(creat, ALWAYS, creat((const char *)a, (mode_t)b))                                         \
    CALL(dup2, ALWAYS, dup2((int)a, (int)b))                                                       \
    CALL(stat, ALWAYS, syscall_stat(number, a, b, c, d, (struct stat *)b))                         \
    CALL(lstat, ALWAYS, syscall_stat(number, a, b, c, d, (struct stat *)b))                        \
    CALL(utime, ALWAYS, utime((const char *)a, (const struct utimbuf *)b))                         \
    CALL(utimes, ALWAYS, utimes((const char *)a, (const struct timeval *)b))                       \
    CALL(futimesat, ALWAYS, futimesat((int)a, (const char *)b, (const struct timeval *)c))         \
    CALL(chmod, ALWAYS, chmod((const char *)a, (mode_t)b))                                         \
    CALL(chown, ALWAYS, chown((const char *)a, (uid_t)b, (gid_t)c))                                \
    CALL(lchown, ALWAYS, lchown((const char *)a, (uid_t)b, (gid_t)c))                              \
    CALL(rename, ALWAYS, rename((const char *)a, (const char *)b))                                 \
    CALL(renameat, ALWAYS, renameat((int)a, (const char *)b, (int)c, (const char *)d))             \
    CALL(link, ALWAYS, link((const char *)a, (const char *)b))                                     \
    CALL(symlink, ALWAYS, symlink((const char *)a, (const char *)b))                               \
    CALL(unlink, ALWAYS, unlink((const char *)a))                                                  \
    CALL(rmdir, ALWAYS, rmdir((const char *)a))                                                    \
    CALL(mkdir, ALWAYS, mkdir((const char *)a, (mode_t)b))
#else
#define OLD_CALLS
#endif

/* glibc's utimensat takes no NULL for the descriptor's own file, the kernel does. */
static int set_times(int at, const char *path, const struct timespec times[2], int flags)
{
    return path == NULL ? futimens(at, times) : utimensat(at, path, times, flags);
}

/* Before the kernel carries out what is queued. False: errno says what was lost before. */
static bool released(void)
{
    int error = shim_release_queued();

    if (error != 0)
        errno = -error;
    return error == 0;
}

/* What a number is to us; the trampoline below knows the first and the last. */
enum kind { PASSES, OF_FILE, ALWAYS, FORKS };
_Static_assert(PASSES == 0 && FORKS == 3, "see the trampoline");

#define SYSCALLS 512
__attribute__((used, visibility("hidden"))) const uint8_t portus_syscall_kind[SYSCALLS] = {
#define CALL(name, kind, call) [SYS_##name] = kind,
    CALLS OLD_CALLS
#undef CALL
        [SYS_mmap] = ALWAYS,
    [SYS_clone] = FORKS,
    [SYS_clone3] = FORKS,
#ifdef SYS_fork
    [SYS_fork] = FORKS,
    [SYS_vfork] = FORKS,
#endif
};

long __wrap_syscall(long number, ...);
#define RAW __wrap_syscall(number, a, b, c, d, e, f)

__attribute__((used, visibility("hidden"))) long
portus_syscall_taken(long number, long a, long b, long c, long d, long e, long f);
long portus_syscall_taken(long number, long a, long b, long c, long d, long e, long f)
{
    if (portus_syscall_kind[number] == OF_FILE && fdtab_file((int)a) == NULL && !fdtab_ours((int)a))
        return RAW;
    switch (number) {
#define CALL(name, kind, call)                                                                     \
    case SYS_##name:                                                                               \
        return call;
        CALLS OLD_CALLS
#undef CALL
            case SYS_mmap : if (fdtab_file((int)e) != NULL && !(d & MAP_ANONYMOUS)) return (
                                long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
        return RAW;
    default:
        return RAW;
    }
}

/* A child made here runs no handler of fork. */
__attribute__((used, visibility("hidden"))) void portus_syscall_forks(void);
void portus_syscall_forks(void)
{
    shim_share_open();
}

/*
 * syscall itself has no frame: a child of vfork returns on its parent's stack. A call
 * that is nothing to us costs one look into a table. The arguments of a C call and of
 * a system call: System V ABI, x86-64, A.2.1; Linux syscall(2).
 */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    cmp $512, %rdi\n"
        "    jae __wrap_syscall\n"
        "    lea portus_syscall_kind(%rip), %rax\n"
        "    movzbl (%rax,%rdi), %eax\n"
        "    test %eax, %eax\n"
        "    jz __wrap_syscall\n"
        "    cmp $3, %eax\n"
        "    jne portus_syscall_taken\n"
        "    push %rdi\n"
        "    push %rsi\n"
        "    push %rdx\n"
        "    push %rcx\n"
        "    push %r8\n"
        "    push %r9\n"
        "    sub $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 56\n"
        "    call portus_syscall_forks\n"
        "    add $8, %rsp\n"
        "    pop %r9\n"
        "    pop %r8\n"
        "    pop %rcx\n"
        "    pop %rdx\n"
        "    pop %rsi\n"
        "    pop %rdi\n"
        "    .cfi_adjust_cfa_offset -56\n"
        "    .cfi_endproc\n"
        ".size syscall, .-syscall\n"
        ".globl __wrap_syscall\n"
        ".hidden __wrap_syscall\n"
        ".type __wrap_syscall, @function\n"
        "__wrap_syscall:\n"
        "    .cfi_startproc\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n"
        "    mov %r9, %r8\n"
        "    mov 8(%rsp), %r9\n"
        "    syscall\n"
        "    cmp $-4095, %rax\n"
        "    jae 1f\n"
        "    ret\n"
        "1:  neg %eax\n"
        "    push %rax\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call __errno_location@PLT\n"
        "    pop %rcx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    mov %ecx, (%rax)\n"
        "    mov $-1, %rax\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size __wrap_syscall, .-__wrap_syscall\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, %function\n"
        "syscall:\n"
        "    cmp x0, #512\n"
        "    b.hs __wrap_syscall\n"
        "    adrp x8, portus_syscall_kind\n"
        "    add x8, x8, :lo12:portus_syscall_kind\n"
        "    ldrb w8, [x8, x0]\n"
        "    cbz w8, __wrap_syscall\n"
        "    cmp w8, #3\n"
        "    b.ne portus_syscall_taken\n"
        "    stp x29, x30, [sp, #-80]!\n"
        "    stp x0, x1, [sp, #16]\n"
        "    stp x2, x3, [sp, #32]\n"
        "    stp x4, x5, [sp, #48]\n"
        "    str x6, [sp, #64]\n"
        "    bl portus_syscall_forks\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x2, x3, [sp, #32]\n"
        "    ldp x4, x5, [sp, #48]\n"
        "    ldr x6, [sp, #64]\n"
        "    ldp x29, x30, [sp], #80\n"
        ".size syscall, .-syscall\n"
        ".globl __wrap_syscall\n"
        ".hidden __wrap_syscall\n"
        ".type __wrap_syscall, %function\n"
        "__wrap_syscall:\n"
        "    mov x8, x0\n"
        "    mov x0, x1\n"
        "    mov x1, x2\n"
        "    mov x2, x3\n"
        "    mov x3, x4\n"
        "    mov x4, x5\n"
        "    mov x5, x6\n"
        "    svc #0\n"
        "    cmn x0, #4095\n"
        "    b.hs 1f\n"
        "    ret\n"
        "1:  stp x29, x30, [sp, #-32]!\n"
        "    str x0, [sp, #16]\n"
        "    bl __errno_location\n"
        "    ldr x1, [sp, #16]\n"
        "    neg w1, w1\n"
        "    str w1, [x0]\n"
        "    mov x0, #-1\n"
        "    ldp x29, x30, [sp], #32\n"
        "    ret\n"
        ".size __wrap_syscall, .-__wrap_syscall\n");
#else
#error "syscall needs a trampoline on this machine"
#endif
