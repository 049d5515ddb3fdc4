/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_kernel.c -- what the kernel, libc and other processes do with memory that a device was copied to
 * run: captures=2 referred=30 modes=default,ring,copied
 *
 * Right: it keeps its bytes, or has those that were written to it, whatever becomes of the ring.
 */
#include <malloc.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "cuda.h"

enum { SIZE = 3 * MIB };

#define PREFERRED 1 /* numaif.h */
#define MOVE 2
#define COLLAPSE 25 /* MADV_COLLAPSE, Linux 6.1 */

static int fd, from_file;

/* Promised, then `what` is done: it has the device's bytes still, now and later. */
#define KEEPS(what)                                                                                \
    do {                                                                                           \
        char *to = anonymous(SIZE);                                                                \
                                                                                                   \
        alarm(5);                                                                                  \
        copy(to, SIZE, __LINE__);                                                                  \
        what;                                                                                      \
        check(stamped(to, SIZE, __LINE__));                                                        \
        put(fd, to, SIZE);                                                                         \
        churn(fd);                                                                                 \
        check(stamped(to, SIZE, __LINE__));                                                        \
        put(fd, to, SIZE);                                                                         \
        munmap(to, SIZE);                                                                          \
    } while (0)

/* The same of what puts 8 KiB of the file at to + MIB. */
#define TAKES(what)                                                                                \
    do {                                                                                           \
        char *to = anonymous(SIZE);                                                                \
                                                                                                   \
        alarm(5);                                                                                  \
        copy(to, SIZE, __LINE__);                                                                  \
        check((what) == 8192);                                                                     \
        check(stamped(to, MIB, __LINE__) && stamped(to + MIB, 8192, 77));                          \
        put(fd, to, SIZE);                                                                         \
        churn(fd);                                                                                 \
        check(stamped(to, MIB, __LINE__) && stamped(to + MIB, 8192, 77));                          \
        put(fd, to, SIZE);                                                                         \
        munmap(to, SIZE);                                                                          \
    } while (0)

static ssize_t direct(char *to)
{
    int file = open("source", O_RDONLY | O_DIRECT);
    ssize_t got = file < 0 ? pread(from_file, to, 8192, 0) : pread(file, to, 8192, 0);

    close(file);
    return got;
}

static ssize_t by_memory(char *to, const char *bytes)
{
    int memory = must(open("/proc/self/mem", O_RDWR));
    ssize_t done = pwrite(memory, bytes, 8192, (off_t)(uintptr_t)to);

    close(memory);
    return done;
}

/* A debugger, say. */
static ssize_t by_another(char *to, const char *bytes)
{
    pid_t parent = getpid(), child;
    int status;

    prctl(PR_SET_PTRACER, parent);
    child = must(vfork());
    if (child == 0) {
        struct iovec local = {(void *)(uintptr_t)bytes, 8192}, remote = {to, 8192};

        _exit(syscall(SYS_process_vm_writev, parent, &local, 1ul, &remote, 1ul, 0ul) == 8192 ? 0 : 1);
    }
    check(waitpid(child, &status, 0) == child);
    return status == 0 ? 8192 : by_memory(to, bytes); /* it may not everywhere */
}

/* Memory that libc has back, trims by a system call of its own, and gives again. */
static void trimmed(void)
{
    char *to[4], *again;

    alarm(5);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    for (unsigned i = 0; i < 4; i++) {
        to[i] = host(SIZE);
        copy(to[i], SIZE, i);
        put(fd, to[i], SIZE);
    }
    free(to[0]);
    free(to[2]);
    malloc_trim(0);
    for (unsigned i = 0; i < 4; i += 2) {
        again = calloc(1, SIZE);
        check(again != NULL && zeros(again, SIZE));
        copy(again, SIZE, 9 + i);
        put(fd, again, SIZE);
        free(again);
    }
    churn(fd);
    check(stamped(to[1], SIZE, 1) && stamped(to[3], SIZE, 3));
    free(to[1]);
    free(to[3]);
    malloc_trim(0);
    again = calloc(4, SIZE);
    check(again != NULL && zeros(again, 4 * SIZE));
    free(again);
}

/* A stack that is not the main one: the thread's own, and another thread's. */
static char *_Atomic stack_of_other;
static CUcontext context;

static void *has_stack(void *unused __attribute__((unused)))
{
    char own[SIZE];

    ok(cuCtxSetCurrent(context));
    copy(own, SIZE, 5);
    check(stamped(own, SIZE, 5));
    stack_of_other = own;
    while (stack_of_other != NULL)
        usleep(1000);
    check(stamped(own, SIZE, 6));
    churn(fd);
    check(stamped(own, SIZE, 6));
    put(fd, own, SIZE);
    return NULL;
}

static void stacks(void)
{
    pthread_t thread;

    alarm(5);
    ok(cuCtxGetCurrent(&context));
    check(pthread_create(&thread, NULL, has_stack, NULL) == 0);
    while (stack_of_other == NULL)
        usleep(1000);
    copy(stack_of_other, SIZE, 6);
    stack_of_other = NULL;
    check(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    char *bytes = anonymous(8192);
    unsigned long node = 1;

    for (size_t i = 0; i < 2048; i++)
        ((uint32_t *)bytes)[i] = 77 + (uint32_t)i * 2654435761u;
    from_file = must(open("source", O_RDWR | O_CREAT | O_TRUNC, 0644));
    put(from_file, bytes, 8192);
    check(fsync(from_file) == 0);
    begin();
    fd = create("a.ckpt");
    KEEPS(syscall(SYS_mbind, to, (size_t)SIZE, PREFERRED, &node, 2ul, MOVE));
    KEEPS(madvise(to, SIZE, MADV_HUGEPAGE); madvise(to, SIZE, COLLAPSE));
    KEEPS(madvise(to, SIZE, MADV_NOHUGEPAGE));
    KEEPS(madvise(to, SIZE, MADV_COLD); madvise(to, SIZE, MADV_PAGEOUT));
    KEEPS(madvise(to, SIZE, MADV_DONTDUMP); madvise(to, SIZE, MADV_DONTFORK));
    KEEPS(if (mlockall(MCL_FUTURE) == 0) { copy(to, SIZE, __LINE__); must(munlockall()); });
    TAKES(pread(from_file, to + MIB, 8192, 0));
    TAKES(direct(to + MIB));
    TAKES(by_memory(to + MIB, bytes));
    TAKES(by_another(to + MIB, bytes));
    trimmed();
    stacks();
    check(close(fd) == 0);
    show("a.ckpt");
    return 0;
}
