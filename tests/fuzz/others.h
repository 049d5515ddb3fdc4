/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * others.h -- calls.c's calls with other processes and threads, one at a time or apart
 *
 * The neighbour is a process without the shim that is there all the time: it opens files by
 * name or is sent their descriptors, reads, writes, locks, and keeps some open. A lodger is a
 * forked child that sleeps on the descriptors it was born with until it is called: then it
 * writes, or only goes. Each is waited for, so the order is the same in each run.
 */
#ifndef TESTS_FUZZ_OTHERS_H
#define TESTS_FUZZ_OTHERS_H

#include "choices.h"
#include <pthread.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/xattr.h>

#define HIGH 900 /* numbers that no other call hits, but one that closes all */
#define LODGERS 2

enum deed { READ, WRITE, APPEND, ASK, LOCK, KEEP, FORGET, SENT, DEEDS };

struct order {
    enum deed deed;
    unsigned kind;
    char name[20];
    size_t length, from;
    off_t at;
};

struct answer {
    long long result;
    int error, more;
    unsigned long long hash;
};

static int neighbour = -1;
static struct lodger {
    pid_t pid; /* 0: none */
    int call;
} lodgers[LODGERS];

/* --- the neighbour's side --- */

static int lock_file(int fd, unsigned kind)
{
    struct flock lock = {.l_type = kind & 4 ? F_RDLCK : F_WRLCK, .l_len = kind & 8 ? 100 : 0};

    if (kind % 3 == 0)
        return flock(fd, (kind & 4 ? LOCK_SH : LOCK_EX) | LOCK_NB);
    return fcntl(fd, kind % 3 == 1 ? F_SETLK : F_OFD_SETLK, &lock);
}

/* Who holds what: one digit a kind of lock. */
static int asked(int fd)
{
    struct flock l = {.l_type = F_WRLCK}, o = {.l_type = F_WRLCK};
    int found = 0;

    if (fcntl(fd, F_GETLK, &l) == 0)
        found += l.l_type == F_UNLCK ? 0 : l.l_type == F_RDLCK ? 1 : 2;
    if (fcntl(fd, F_OFD_GETLK, &o) == 0)
        found += 10 * (o.l_type == F_UNLCK ? 0 : o.l_type == F_RDLCK ? 1 : 2);
    return found + 100 * (flock(fd, LOCK_EX | LOCK_NB) != 0);
}

static struct answer obey(const struct order *order, int sent)
{
    static const int access_modes[DEEDS] = {
        [WRITE] = O_WRONLY, [APPEND] = O_WRONLY | O_APPEND, [ASK] = O_RDWR, [LOCK] = O_RDWR};
    static int kept = -1, locked = -1;
    struct answer answer = {0};
    int fd = -1;

    errno = 0;
    if (order->deed != FORGET && order->deed != SENT)
        answer.result = fd = open(order->name, access_modes[order->deed] | O_CLOEXEC);
    switch (fd < 0 && order->deed < FORGET ? DEEDS : order->deed) {
    case READ:
        while ((answer.result = read(fd, room, sizeof(room))) > 0)
            answer.hash = answer.hash * 31 + hash(room, (size_t)answer.result),
            answer.more += (int)answer.result;
        break;
    case WRITE:
        answer.result = pwrite(fd, base + order->from, order->length, order->at);
        break;
    case APPEND:
        answer.result = write(fd, base + order->from, order->length);
        break;
    case ASK:
        answer.result = asked(fd);
        break;
    case LOCK:
        close(locked);
        locked = dup(fd); /* closing one of them drops what fcntl locked: so it was */
        answer.result = lock_file(locked, order->kind);
        break;
    case KEEP:
        close(kept);
        kept = dup(fd);
        break;
    case FORGET:
        close(kept), close(locked), kept = locked = -1;
        errno = 0;
        break;
    case SENT:
        answer.result = write(sent, base + order->from, order->length);
        answer.more = (int)lseek(sent, 0, SEEK_CUR);
        if (order->kind & 1)
            close(kept), kept = dup(sent);
        break;
    default:
        break;
    }
    answer.error = answer.result < 0 ? errno : 0;
    close(fd), close(sent);
    answer.result = order->deed == KEEP && answer.result >= 0 ? 0 : answer.result;
    return answer;
}

/* A message with a descriptor in it, or -1. */
static ssize_t pass(bool send, int socket, void *data, size_t length, int *fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec vector = {data, length};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    ssize_t result;

    if (!send || *fd >= 0)
        message.msg_control = &control, message.msg_controllen = sizeof(control);
    if (send) {
        memcpy(CMSG_DATA(&control.head), fd, sizeof(*fd));
        return sendmsg(socket, &message, MSG_NOSIGNAL);
    }
    result = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    *fd = -1;
    if (result > 0 && message.msg_controllen >= CMSG_LEN(sizeof(int)))
        memcpy(fd, CMSG_DATA(&control.head), sizeof(*fd));
    return result;
}

static void live_next_door(int socket)
{
    struct order order;
    struct answer answer;
    int fd;

    while (pass(false, socket, &order, sizeof(order), &fd) == sizeof(order)) {
        answer = obey(&order, fd);
        check(send(socket, &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer));
    }
    _exit(0);
}

static void get_a_neighbour(const char *program, const char *own_seed)
{
    char number_of_it[12];
    int ends[2];

    check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    snprintf(number_of_it, sizeof(number_of_it), "%d", ends[1]);
    if (must(fork()) == 0) {
        unsetenv("LD_PRELOAD");
        close(ends[0]);
        execl(program, program, own_seed, "next door", number_of_it, (char *)0);
        _exit(127);
    }
    close(ends[1]);
    neighbour = must(fcntl(ends[0], F_DUPFD_CLOEXEC, HIGH));
    close(ends[0]);
}

/* --- the program's side --- */

static void do_neighbour(void)
{
    static const char *const deeds[] = {"reads", "writes", "appends to", "asks for locks of",
                                        "locks", "keeps",  "forgets",    "is sent"};
    struct order order = {.deed = (enum deed)pick(DEEDS),
                          .kind = (unsigned)pick(16),
                          .length = length(),
                          .from = pick(BASE / 2),
                          .at = (off_t)length()};
    int fd = descriptor(), sent = order.deed == SENT ? fd : -1;
    struct answer answer;

    snprintf(order.name, sizeof(order.name), "%s", name());
    if (order.deed == SENT && sent < 0)
        return;
    errno = 0;
    if (pass(true, neighbour, &order, sizeof(order), &sent) < 0) {
        said(-1, errno, "the neighbour is not reached (%d)", sent);
        return;
    }
    check(recv(neighbour, &answer, sizeof(answer), 0) == sizeof(answer));
    said(answer.result, answer.error, "the neighbour %s %s (%d, %u, %zu): %d %llx",
         deeds[order.deed], order.deed == SENT ? "" : order.name, sent, order.kind, order.length,
         answer.more, answer.hash);
}

static void dismiss(struct lodger *lodger, char what)
{
    if (lodger->pid == 0)
        return;
    check(send(lodger->call, &what, 1, MSG_NOSIGNAL) == 1 && close(lodger->call) == 0);
    reap("lodger", lodger->pid);
    fflush(stdout);
    lodger->pid = 0;
}

static void dismiss_all(void)
{
    for (int i = 0; i < LODGERS; i++)
        dismiss(&lodgers[i], 0);
}

/* A forked child has none of its own. */
static void forget_lodgers(void)
{
    memset(lodgers, 0, sizeof(lodgers));
}

static void lodge(int socket, int fd, size_t n, off_t at, const char *from)
{
    char what;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(socket, &what, 1) != 1)
        _exit(0);
    if (what & 1)
        CALL(write(fd, from, n), "write(%d, %zu)", fd, n);
    if (what & 2)
        CALL(pwrite(fd, from, n, at), "pwrite(%d, %zu, %lld)", fd, n, (long long)at);
    if (what & 4)
        CALL(close(fd), "close(%d)", fd);
    if (what & 8)
        CALL(lseek(fd, 0, SEEK_END), "lseek(%d, 0, 2)", fd);
    if (what & 16)
        raise(SIGKILL);
    _exit(what & 32 ? 1 : 0);
}

static void do_lodger(void)
{
    struct lodger *lodger = &ONE_OF(lodgers);
    int fd = descriptor(), ends[2];
    size_t n = length();
    off_t at = (off_t)length();
    const char *from = source();
    char what = (char)pick(64);

    if (depth != 0)
        return;
    if (lodger->pid != 0) {
        said(what, 0, "a lodger is called");
        dismiss(lodger, what);
        return;
    }
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    lodger->call = must(fcntl(ends[0], F_DUPFD_CLOEXEC, HIGH));
    close(ends[0]);
    lodger->pid = must(fork());
    if (lodger->pid == 0) {
        depth++;
        close(lodger->call);
        lodge(ends[1], fd, n, at, from);
    }
    close(ends[1]);
    said(fd, 0, "a lodger comes");
}

/* Threads that save and load, each files of its own. */
struct visit {
    unsigned number;
    size_t length;
    const char *from;
    unsigned long long hash;
    long long size;
};

static void *visit(void *argument)
{
    struct visit *v = argument;
    char from[20], to[20], *back = malloc(v->length + 1);

    snprintf(from, sizeof(from), "v%u.tmp", v->number);
    snprintf(to, sizeof(to), "v%u.ckpt", v->number);
    for (int i = 0; i < 2; i++) {
        int fd = open(from, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
        size_t half = v->length / 2;

        check(write(fd, v->from, half) == (ssize_t)half);
        check(pwrite(fd, v->from + half, v->length - half, (off_t)half) ==
              (ssize_t)(v->length - half));
        check(close(fd) == 0 && rename(from, to) == 0);
        fd = open(to, O_RDONLY | O_CLOEXEC);
        v->size = read(fd, back, v->length + 1);
        v->hash = v->size > 0 ? hash(back, (size_t)v->size) : 0;
        check(close(fd) == 0);
    }
    free(back);
    return NULL;
}

static void do_visits(void)
{
    struct visit visits[3];
    pthread_t threads[3];

    for (unsigned i = 0; i < 3; i++)
        visits[i] = (struct visit){.number = i, .length = length(), .from = source()};
    for (int i = 0; i < 3; i++)
        check(pthread_create(&threads[i], NULL, visit, &visits[i]) == 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        said(visits[i].size, 0, "save and load of a thread(%zu) %llx", visits[i].length,
             visits[i].hash);
    }
}

/* What is known of a descriptor besides its bytes. */
static void do_look(void)
{
    int fd = descriptor();
    const char *path = name();
    char value[64];

    switch (pick(5)) {
    case 0:
        CALL(fgetxattr(fd, "user.y", value, sizeof(value)), "fgetxattr(%d)", fd);
        break;
    case 1:
        CALL(getxattr(path, "user.x", value, sizeof(value)), "getxattr(%s)", path);
        break;
    case 2:
        CALL(fcntl(fd, F_GETOWN), "fcntl(%d, F_GETOWN)", fd);
        break;
    case 3:
        CALL(fcntl(fd, F_GETSIG), "fcntl(%d, F_GETSIG)", fd);
        break;
    default:
        CALL(fcntl(fd, F_GETLEASE), "fcntl(%d, F_GETLEASE)", fd);
    }
}

#endif
