/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handlers.c -- a program that handles SIGSEGV, SIGBUS and SIGIO itself, on a small stack of their own
 * run: captures=1 modes=default,all,ring
 *
 * Right: its handlers run when its own instructions fault, a pipe has something or a lease of its own is broken, and
 * never for what a write meets; that write is cut short or fails as it does plainly.
 */
#include "helper.h"
#include <setjmp.h>
#include <sys/mman.h>

static volatile sig_atomic_t faults, buses, ios;
static char *guarded;
static int broken = -1;
static sigjmp_buf back;
static int number;
static char *mark;

static void fault(int signal, siginfo_t *info, void *context)
{
    int error = errno;

    check(context != NULL);
    if (signal == SIGBUS) {
        buses++;
        siglongjmp(back, 1);
    }
    /* As a collector's write barrier: what is written is noted, and the page opened. */
    check((char *)info->si_addr >= guarded && (char *)info->si_addr < guarded + 4096);
    faults++;
    check(mprotect(guarded, 4096, PROT_READ | PROT_WRITE) == 0);
    put_at(number, mark, 100, 5 * MIB + 100 * faults); /* a handler that writes, too */
    errno = error;
}

static void io(int signal, siginfo_t *info, void *context)
{
    int error = errno;

    check(signal == SIGIO && context != NULL);
    ios++;
    if (info->si_fd == broken)
        fcntl(broken, F_SETLEASE, F_UNLCK);
    errno = error;
}

int main(void)
{
    static char stack[16384];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction faulty = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction ready = {.sa_sigaction = io, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    char *p = bytes(BIG, 1), *small, *cut;
    int pair[2], lease;

    must(sigaltstack(&alternate, NULL));
    must(sigaction(SIGSEGV, &faulty, NULL));
    must(sigaction(SIGBUS, &faulty, NULL));
    must(sigaction(SIGIO, &ready, NULL));
    mark = bytes(100, 3);

    /* Its own faults, while a file is live. */
    number = create("a.ckpt");
    put(number, p, BIG);
    guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 5; i++) {
        guarded[i * 800] = 'x';
        put(number, guarded, 4096);
        put(number, p + i, MIB);
        check(mprotect(guarded, 4096, PROT_READ) == 0);
    }
    printf("faults %d\n", faults);

    /* What a write meets is no fault of the program's: a closed page, the end of a mapped file. */
    small = mmap(NULL, 3 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(small, 3 * MIB, 9);
    check(mprotect(small + 2 * MIB, MIB, PROT_NONE) == 0);
    printf("closed %zd\n", write(number, small, 3 * MIB));
    printf("closed %d", write(number, small + 2 * MIB, MIB) == -1);
    printf(" %s\n", strerror(errno));
    save("short", 2 * MIB, 7);
    int fd = must(open("short", O_RDWR));
    cut = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, fd, 0);
    check(ftruncate(fd, MIB + 4096) == 0);
    printf("cut %zd\n", write(number, cut, 3 * MIB));
    printf("cut %d", write(number, cut + 3 * MIB, MIB) == -1);
    printf(" %s\n", strerror(errno));
    if (sigsetjmp(back, 1) == 0)
        check(cut[2 * MIB] == 1);
    printf("buses %d, faults %d\n", buses, faults);

    /* SIGIO of a pipe and of a lease of its own. */
    must(pipe(pair));
    must(fcntl(pair[0], F_SETOWN, getpid()));
    must(fcntl(pair[0], F_SETSIG, SIGIO));
    must(fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    must(write(pair[1], "x", 1));
    put(number, p, BIG);
    printf("pipe %d\n", ios);
    save("leased", 100, 4);
    while ((lease = must(open("leased", O_RDONLY))), fcntl(lease, F_SETLEASE, F_RDLCK) < 0)
        close(lease), usleep(1000); /* the agent lets go of it soon */
    must(fcntl(lease, F_SETSIG, SIGIO));
    broken = lease;
    must(open("leased", O_WRONLY));
    printf("lease %d\n", ios);
    close(number);
    show("a.ckpt");
    struct sigaction now;
    must(sigaction(SIGIO, NULL, &now));
    printf("still its own: %d\n", now.sa_sigaction == io);
    return 0;
}
