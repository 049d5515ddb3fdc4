/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.c -- a random program: what it calls is determined by a seed
 *
 *     calls SEED COUNT [SKIP,SKIP...]
 *
 * Makes COUNT calls, or short runs of them, on a few names, descriptors, streams and
 * mappings in the current directory, then ends in one of several ways. It prints a line a
 * call with all that a program can see: result, errno, digests, sizes; not what differs
 * from run to run anyway: times, inodes, process ids, blocks. Any call can be left out
 * without changing the others: tests/fuzz/fuzz.
 */
#include "descriptors.h"
#include "others.h"
#include "streams.h"
#include <aio.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/xattr.h>

static void calls(uint64_t first, uint64_t count, const char *skip);
static void end(void);

/* A description comes back by a socket: as the same, under a number that nobody gave. */
static void send_to_self(int fd, int *to)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec byte = {base, 1};
    struct msghdr message = {.msg_iov = &byte,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    int ends[2], got = -1;

    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    if (CALL(sendmsg(ends[0], &message, 0), "sendmsg(%d)", fd) > 0) {
        check(recvmsg(ends[1], &message, 0) == 1);
        memcpy(&got, CMSG_DATA(&control.head), sizeof(got));
        said(got, 0, "  received");
    }
    close(ends[0]);
    close(ends[1]);
    replace(to, got);
}

static void asynchronous(int fd, const char *from, size_t n, off_t at)
{
    struct aiocb job = {
        .aio_fildes = fd, .aio_buf = (void *)(uintptr_t)from, .aio_nbytes = n, .aio_offset = at};
    const struct aiocb *jobs[] = {&job};

    if (CALL(aio_write(&job), "aio_write(%d, %zu, %lld)", fd, n, (long long)at) == 0) {
        while (aio_error(&job) == EINPROGRESS)
            aio_suspend(jobs, 1, NULL);
        CALL(aio_return(&job), "aio_return");
    }
}

/* What few programs do. */
static void do_rare(void)
{
    char path[] = "tmpXXXXXX", link[40];
    int fd = descriptor(), *to = slot(), other;
    const char *from = source(), *file = name(), *locks[] = {"write", "read", "no"};
    size_t n = length();
    off_t at = place();
    short kind = (short)ONE_OF(((int[]){F_WRLCK, F_RDLCK, F_UNLCK}));
    struct flock lock = {.l_type = kind, .l_len = (off_t)n};

    switch (pick(12)) {
    case 0:
        replace(to, (int)CALL(mkstemp(path), "mkstemp"));
        CALL(write(*to, from, n), "write(%d, %zu)", *to, n);
        CALL(rename(path, file), "rename(its, %s)", file);
        unlink(path);
        break;
    case 1:
        replace(to, (int)CALL(open(".", O_TMPFILE | O_RDWR, 0644), "open(O_TMPFILE)"));
        CALL(write(*to, from, n), "write(%d, %zu)", *to, n);
        snprintf(link, sizeof(link), "/proc/self/fd/%d", *to);
        CALL(linkat(AT_FDCWD, link, AT_FDCWD, file, AT_SYMLINK_FOLLOW), "linkat(%s)", file);
        break;
    case 2:
        CALL(setxattr(file, "user.x", from, n % 50, 0), "setxattr(%s)", file);
        break;
    case 3:
        CALL(fsetxattr(fd, "user.y", from, n % 50, 0), "fsetxattr(%d)", fd);
        break;
    case 4:
        if (depth == 0) /* glibc's threads are not there in a child that had them before */
            asynchronous(fd, from, n, at);
        break;
    case 5:
        CALL(fcntl(fd, pick(2) ? F_SETLK : F_OFD_SETLK, &lock), "fcntl(%d, %s lock)", fd,
             locks[kind == F_WRLCK   ? 0
                   : kind == F_RDLCK ? 1
                                     : 2]);
        break;
    case 6:
        send_to_self(fd, to);
        break;
    case 7:
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        replace(to, (int)CALL(open(link, O_RDWR), "open(%s)", link));
        break;
    case 8:
        replace(to, (int)CALL(creat(file, 0640), "creat(%s)", file));
        break;
    case 9:
        other = open("dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        replace(to, (int)CALL(openat(other, "../b.pt", O_CREAT | O_TRUNC | O_WRONLY, 0644),
                              "openat(%d, ../b.pt)", other));
        close(other);
        break;
    default:
        if (pick(2))
            CALL(lseek(fd, at, SEEK_SET), "lseek(%d, %lld, 0)", fd, (long long)at);
        CALL(dprintf(fd, "%0*zu\n", (int)(n % 9000), n), "dprintf(%d, %zu)", fd, n % 9000);
    }
}

/* Another program reads a file, with the shim or without. */
static void do_spawn(void)
{
    const char *path = name();
    char *arguments[] = {(char *)"cksum", (char *)path, NULL}, *none[] = {NULL};
    bool bare = pick(2);
    char command[100];
    pid_t pid;

    if (pick(4) == 0) {
        snprintf(command, sizeof(command), "cksum %s", path);
        CALL(system(command), "system(%s)", command);
        return;
    }

    int error = posix_spawnp(&pid, "cksum", NULL, NULL, arguments, bare ? none : environ);

    if (error == 0)
        reap("cksum", pid);
    fflush(stdout);
    said(error, 0, "cksum %s %d", path, bare);
}

static void do_fork(void)
{
    uint64_t count = pick(6), before = number;
    bool virtual = pick(4) == 0;
    pid_t pid;

    if (depth > 1)
        return;
    if (virtual) {
        pid = vfork();
        if (pid == 0)
            _exit(3);
    } else {
        pid = fork();
        if (pid == 0) {
            depth++;
            forget_lodgers();
            calls(before * 1000 + 1, count, "");
            end();
        }
    }
    check(pid > 0);
    reap("child", pid);
    fflush(stdout);
}

/* Most programs return from main, but these ways are there as well. */
static void end(void)
{
    dismiss_all();
    state = seed + 77 + (uint64_t)depth * number;
    switch (pick(7)) {
    case 0:
        _exit(4);
    case 1:
        quick_exit(5);
    case 2:
        execlp("true", "true", (char *)0);
        break;
    case 3:
        raise(SIGKILL);
        break;
    default:
        exit(0);
    }
}

static struct {
    void (*make)(void);
    unsigned often;
} kinds[] = {
    {do_open, 10},       {do_create, 8},      {do_close, 5},    {do_dup, 4},
    {do_flags, 2},       {do_close_range, 1}, {do_write, 22},   {do_vectors, 8},
    {do_odd, 2},         {do_read, 6},        {do_seek, 6},     {do_resize, 6},
    {do_sync, 3},        {do_copy, 4},        {do_map, 5},      {do_threads, 2},
    {do_names, 9},       {do_stat, 9},        {do_metadata, 4}, {do_fopen, 6},
    {do_fclose, 2},      {do_stream, 5},      {do_fork, 2},     {do_stream_write, 9},
    {do_stream_read, 4}, {do_spawn, 2},       {do_rare, 6},     {do_neighbour, 6},
    {do_lodger, 3},      {do_visits, 1},      {do_look, 2},
};

static bool listed(const char *list, uint64_t wanted)
{
    for (char *end; *list != '\0'; list = *end == ',' ? end + 1 : end)
        if (strtoull(list, &end, 10) == wanted || end == list)
            return end != list;
    return false;
}

static void calls(uint64_t first, uint64_t count, const char *skip)
{
    unsigned all = 0, at;
    size_t kind;

    for (kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
        all += kinds[kind].often;
    for (number = first; number < first + count; number++) {
        uint64_t own = number;
        if (listed(skip, number))
            continue;
        state = seed * 0x632be59bd9b4e019ull + number * 0xd1342543de82ef95ull;
        at = number <= 3 ? kinds[0].often : (unsigned)pick(all); /* something to work on */
        for (kind = 0; at >= kinds[kind].often; kind++)
            at -= kinds[kind].often;
        kinds[kind].make();
        number = own;
    }
}

int main(int argc, char **argv)
{
    static const char *const heads[] = {"PK\3\4", "\x80\2}q", "\x93NUMPY\1", "\x89HDF\r\n\x1a\n"};

    if (argc < 3) {
        fprintf(stderr, "usage: calls SEED COUNT [SKIP,SKIP...]\n");
        return 2;
    }
    signal(SIGBUS, on_bus_error);
    seed = strtoull(argv[1], NULL, 0);
    fill(base, BASE, seed);
    for (size_t i = 0; i < 4; i++)
        memcpy(base + (i << 19), heads[i], strlen(heads[i]));
    edge = mmap(NULL, 4 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(edge != MAP_FAILED && mprotect(edge, MIB, PROT_READ | PROT_WRITE) == 0);
    memcpy(edge, base, MIB);
    if (strcmp(argv[2], "next door") == 0)
        live_next_door(atoi(argv[3]));
    get_a_neighbour(argv[0], argv[1]);
    /* Each seed has its own mixture: of what rarely comes together some has it all the time. */
    state = seed;
    fds_used = 1 + pick(FDS);
    names_used = 1 + pick(sizeof(names) / sizeof(names[0]));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        kinds[i].often *= (unsigned[]){0, 1, 1, 6}[pick(4)];
    kinds[1].often += 4;
    check(mkdir("dir", 0755) == 0);
    calls(1, strtoull(argv[2], NULL, 0), argc > 3 ? argv[3] : "");
    end();
    return 0;
}
