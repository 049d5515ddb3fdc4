// SPDX-License-Identifier: BSD-3-Clause
/*
 * doctor_host.c -- doctor's look at the machine: kernel, calls, limits, memory
 *
 * Each call that capture cannot do without is made once, in the way in which it
 * is used later: a version number says nothing about a container's seccomp
 * filter. What was tried is gone with its descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/memory.h"
#include "ctl/doctor.h"
#include "ctl/text.h"
#include "portus/portus.h"

#define PROC_MAGIC 0x9fa0

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* The number in a file of /proc/sys, or -1. */
static long read_number(const char *path)
{
    char text[32];
    ssize_t length = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        length = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    if (length <= 0)
        return -1;
    text[length] = '\0';
    return strtol(text, NULL, 10);
}

/* The value behind key ("MemAvailable:") in a file of lines, or fallback. */
static uint64_t read_value(const char *path, const char *key, uint64_t fallback)
{
    char line[256];
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return fallback;
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0) {
            fallback = strtoull(line + strlen(key), NULL, 10);
            break;
        }
    fclose(file);
    return fallback;
}

static bool can_populate(void)
{
    long page = sysconf(_SC_PAGESIZE);
    void *memory =
        mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool can = memory != MAP_FAILED && madvise(memory, (size_t)page, MADV_POPULATE_WRITE) == 0;

    if (memory != MAP_FAILED)
        munmap(memory, (size_t)page);
    return can;
}

static bool has_pidfd(void)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void look_at_leases(struct doctor *doctor)
{
    long enabled = read_number("/proc/sys/fs/leases-enable");
    long seconds = read_number("/proc/sys/fs/lease-break-time");

    if (enabled == 0)
        doctor_say(doctor, OFF, "leases", "sysctl fs.leases-enable=1 (as root, on the host)",
                   "switched off: other openers could not be made to wait for a file");
    else if (enabled < 0 || seconds < 0)
        doctor_say(doctor, WORKS, "leases", "",
                   "/proc/sys/fs does not say; see what the directory's line has found by trying");
    else if (seconds < 10)
        doctor_say(doctor, SLOWER, "leases", "sysctl fs.lease-break-time=45 (as root, on the host)",
                   "an opener waits %ld s at most, so only what is drained in a third of that "
                   "may be captured at a time",
                   seconds);
    else
        doctor_say(doctor, WORKS, "leases", "", "on; an opener waits %ld s at most", seconds);
}

void doctor_kernel(struct doctor *doctor)
{
    struct utsname name;
    struct statfs proc;
    bool known = uname(&name) == 0;
    const char *release = known ? name.release : "unknown";

    if (!has_pidfd())
        doctor_say(doctor, OFF, "kernel", "use kernel 5.3 or newer, 5.14 if you can",
                   "%s has no pidfd_open, or a filter forbids it: the agent could not be watched",
                   release);
    else if (!can_populate())
        doctor_say(doctor, SLOWER, "kernel", "use kernel 5.14 or newer",
                   "%s has no MADV_POPULATE_WRITE: rings grow more slowly", release);
    else
        doctor_say(doctor, WORKS, "kernel", "", "%s has all that is used", release);

    if (statfs("/proc", &proc) == 0 && proc.f_type == PROC_MAGIC)
        doctor_say(doctor, WORKS, "/proc", "", "is there");
    else
        doctor_say(doctor, OFF, "/proc", "mount proc on /proc",
                   "is not there: the agent cannot be found by it");
    look_at_leases(doctor);
}

/* A memfd as rings are: private, sealed, shared, sparse. Returns it or a negative errno. */
static int try_memfd(void)
{
    void *memory;
    int error, fd = memfd_create("portusctl-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -errno;
    if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)MIB) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        goto fail;
    memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED)
        goto fail;
    munmap(memory, MIB);
    return fd;

fail:
    error = -errno;
    close(fd);
    return error;
}

/* Sends fd over a socket pair and receives it. Returns 0 or a negative errno. */
static int try_passing(int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    int pair[2], received = -1, error = 0;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(part), &fd, sizeof(int));
    if (sendmsg(pair[0], &message, MSG_DONTWAIT | MSG_NOSIGNAL) != 1 ||
        recvmsg(pair[1], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1) {
        error = -errno;
    } else {
        part = CMSG_FIRSTHDR(&message);
        if (part != NULL && part->cmsg_type == SCM_RIGHTS &&
            part->cmsg_len == CMSG_LEN(sizeof(int)))
            memcpy(&received, CMSG_DATA(part), sizeof(int));
        if (received < 0)
            error = -EBADF;
        else
            close(received);
    }
    close(pair[0]);
    close(pair[1]);
    return error;
}

/* A name in the abstract namespace, which the kernel chooses. Returns 0 or a negative errno. */
static int try_abstract(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error = 0, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address.sun_family)) < 0)
        error = -errno;
    close(fd);
    return error;
}

void doctor_calls(struct doctor *doctor)
{
    static const char allow[] = "allow it in the container's or sandbox's filter";
    uint64_t seccomp = read_value("/proc/self/status", "Seccomp:", 0);
    int memory = try_memfd(), passing = memory >= 0 ? try_passing(memory) : 0;
    int name = try_abstract();

    if (memory >= 0)
        close(memory);
    if (memory < 0)
        doctor_say(doctor, OFF, "memfd", allow, "memory cannot be shared with the agent: %s",
                   strerror(-memory));
    else
        doctor_say(doctor, WORKS, "memfd", "", "memory can be shared with the agent");
    if (passing < 0)
        doctor_say(doctor, OFF, "sockets", allow, "descriptors cannot be passed: %s",
                   strerror(-passing));
    else if (name < 0)
        doctor_say(doctor, OFF, "sockets", allow, "no abstract socket can be bound: %s",
                   strerror(-name));
    else
        doctor_say(doctor, WORKS, "sockets", "", "unix sockets and passing of descriptors work");
    doctor_say(doctor, WORKS, "seccomp", "", "%s",
               seccomp == 0 ? "no filter"
                            : "a filter is on; the calls above were tried and are what counts");
}

static bool limited(int resource, rlim_t *out)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;
    *out = limit.rlim_cur;
    return true;
}

void doctor_limits(struct doctor *doctor)
{
    uint64_t ring = doctor->env->ring_size != 0 ? doctor->env->ring_size : PORTUS_RING_MAX;
    char one[TEXT_BYTES], two[TEXT_BYTES];
    bool fine = true;
    rlim_t limit;

    if (limited(RLIMIT_AS, &limit) && limit < ring + GIB) {
        doctor_say(doctor, OFF, "limits",
                   "ulimit -v unlimited, or set PORTUS_RING_SIZE well below the limit",
                   "address space is limited to %s; a ring takes a range of %s, filled or not",
                   text_bytes(one, limit), text_bytes(two, ring));
        fine = false;
    }
    if (limited(RLIMIT_NOFILE, &limit) && limit < 256) {
        doctor_say(doctor, SLOWER, "limits", "ulimit -n 1024, or more",
                   "%" PRIu64 " open files: few can be captured at a time", (uint64_t)limit);
        fine = false;
    }
    if (limited(RLIMIT_FSIZE, &limit)) {
        doctor_say(doctor, OFF, "limits", "ulimit -f unlimited",
                   "files may have %s at most: a write must fail at once there, so it is not "
                   "captured",
                   text_bytes(one, limit));
        fine = false;
    }
    if (fine)
        doctor_say(doctor, WORKS, "limits", "",
                   "none that matters on address space, open files, file size");
}

void doctor_memory(struct doctor *doctor)
{
    uint64_t machine = read_value("/proc/meminfo", "MemAvailable:", UINT64_MAX / 1024) * 1024;
    uint64_t headroom = portus_memory_headroom(), ring = headroom / 2;
    char one[TEXT_BYTES], two[TEXT_BYTES];
    bool group = headroom < machine - machine / 16;
    const char *limits = group ? "its cgroup allows" : "the machine has";

    if (headroom == UINT64_MAX) {
        doctor_say(doctor, SLOWER, "memory", "", "it cannot be seen how much is free");
        return;
    }
    if (doctor->env->ring_size != 0 && doctor->env->ring_size < ring)
        ring = doctor->env->ring_size;
    text_bytes(one, headroom);
    text_bytes(two, ring);
    if (ring < 16 * MIB)
        doctor_say(doctor, OFF, "memory",
                   group ? "raise the cgroup's memory limit" : "free some memory",
                   "%s %s more: too little for a ring", limits, one);
    else if (ring < 256 * MIB)
        doctor_say(doctor, SLOWER, "memory",
                   group ? "raise the cgroup's memory limit" : "free some memory",
                   "%s %s more, rings take %s at most: a larger save waits for the drain", limits,
                   one, two);
    else
        doctor_say(doctor, WORKS, "memory", "",
                   "%s %s more, rings take %s at most; what is more waits for the drain", limits,
                   one, two);
}
