/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy.c -- which files are captured, and why not
 *
 * Whenever in doubt a file is written as usual. A checkpoint that is not captured
 * is worth a sentence, once for each cause; anything else is passed in silence.
 */
#include "policy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/log.h"
#include "format/sniff.h"
#include "shim.h"
#include "summary.h"

#define DESCRIPTORS_LEAST 768 /* ours are numbered 512 and up */

/* f_type of statfs(2) */
enum { LOCAL, MEMORY, SHARED };
static const struct {
    uint32_t magic;
    int kind;
    const char *name;
} systems[] = {
    {0xef53, LOCAL, "ext4"},        {0x58465342, LOCAL, "xfs"},
    {0x9123683e, LOCAL, "btrfs"},   {0xf2f52010, LOCAL, "f2fs"},
    {0x794c7630, LOCAL, "overlay"}, {0x01021994, MEMORY, "tmpfs"},
    {0x858458f6, MEMORY, "ramfs"},  {0x958458f6, MEMORY, "hugetlbfs"},
    {0x6969, SHARED, "nfs"},        {0x65735546, SHARED, "fuse"},
    {0x0bd00bd0, SHARED, "lustre"}, {0x47504653, SHARED, "gpfs"},
    {0xff534d42, SHARED, "cifs"},   {0xfe534d42, SHARED, "smb"},
    {0x00c36400, SHARED, "ceph"},   {0x19830326, SHARED, "beegfs"},
    {0x01021997, SHARED, "9p"},     {0x2fc12fc1, SHARED, "zfs"},
    {0x5346414f, SHARED, "afs"},    {0x20030528, SHARED, "orangefs"},
};

static const char *const words[VERDICT_COUNT] = {[VERDICT_CAPTURE] = "captured",
                                                 [VERDICT_NOT_YET] = "small",
                                                 [VERDICT_NOT_OURS] = "not a checkpoint",
                                                 [VERDICT_EXCLUDED] = "excluded",
                                                 [VERDICT_SAMPLE] = "left plain to be measured",
#define VERDICT_WORDS(name, label, words) [VERDICT_##name] = words,
                                                 PORTUS_REASONS(VERDICT_WORDS)
#undef VERDICT_WORDS
};

const char *policy_words(enum verdict verdict)
{
    return words[verdict];
}

static int kind_of(int fd, const char **name)
{
    struct statfs status;

    *name = "an unknown file system";
    if (fstatfs(fd, &status) < 0)
        return SHARED;
    for (unsigned i = 0; i < sizeof(systems) / sizeof(systems[0]); i++)
        if ((uint32_t)status.f_type == systems[i].magic) {
            *name = systems[i].name;
            return systems[i].kind;
        }
    return SHARED;
}

bool policy_local(int fd)
{
    const char *name;

    return kind_of(fd, &name) == LOCAL;
}

/* The file system's name of the directory that is the first length bytes of path. */
static void system_at(const char *path, int length, const char **name)
{
    char directory[PATH_MAX];
    int fd;

    snprintf(directory, sizeof(directory), "%.*s", length, path);
    fd = (int)syscall(SYS_openat, AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    kind_of(fd, name);
    if (fd >= 0)
        syscall(SYS_close, fd);
}

bool policy_pieces(int fd)
{
    struct statfs status;
    struct statx file;
    struct rlimit limit;
    int flags = (int)syscall(SYS_fcntl, fd, F_GETFL, 0);

    /* ext4 on current kernels takes 1 MiB pieces three times faster than large ones. */
    return flags >= 0 && !(flags & (O_APPEND | O_DIRECT)) && fstatfs(fd, &status) == 0 &&
           status.f_type == 0xef53 &&
           syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &file) == 0 &&
           S_ISREG(file.stx_mode) && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           limit.rlim_cur == RLIM_INFINITY; /* else a later piece would raise SIGXFSZ */
}

/* The last slash's place in a path, or 0. */
static size_t directory_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path);
}

static uint64_t inode_at(int at, const char *path)
{
    struct statx status;

    if (syscall(SYS_statx, at, path, 0, STATX_INO, &status) < 0)
        return 0;
    return status.stx_ino;
}

/* Inodes of a path's directory, of the one above, and so on; 0 where they are not known. */
static void directories(int at, const char *path, uint64_t inode[PORTUS_ANCESTORS])
{
    char parent[PATH_MAX];
    size_t length = directory_length(path);

    memset(inode, 0, PORTUS_ANCESTORS * sizeof(inode[0]));
    if (length + 3 * PORTUS_ANCESTORS >= sizeof(parent))
        return;
    if (length == 0)
        snprintf(parent, sizeof(parent), "%s", path[0] == '/' ? "/" : ".");
    else
        snprintf(parent, sizeof(parent), "%.*s", (int)length, path);
    for (unsigned i = 0; i < PORTUS_ANCESTORS; i++) {
        inode[i] = inode_at(at, parent);
        if (i > 0 && inode[i] == inode[i - 1]) {
            inode[i] = 0; /* the root */
            return;
        }
        length = strlen(parent);
        snprintf(parent + length, sizeof(parent) - length, "/..");
    }
}

/*
 * Whether a directory is that of a live file, up to three above it (where a pointer
 * to it would be written), or one below.
 */
static bool beside_live(const uint64_t *directory)
{
    const struct portus_control *control = shim_control();

    if (control == NULL || atomic_load(&control->live) == 0 || directory[0] == 0)
        return false;
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        const struct portus_file *file = &control->file[i];
        if (atomic_load(&file->owner) == 0)
            continue;
        for (unsigned j = 0; j < PORTUS_ANCESTORS; j++)
            if (file->directory[j] == directory[0])
                return true;
        if (directory[1] != 0 && file->directory[0] == directory[1])
            return true;
    }
    return false;
}

static bool own_path(int fd, char *path, size_t size)
{
    char link[40];
    ssize_t length;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = readlink(link, path, size - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    return path[0] == '/';
}

/*
 * Rust's tempfile crate names its files so, and renames them by a system call of its own
 * that no hook sees: where it says no size before, nobody knows when the file is whole.
 */
static bool renamed_unseen(const struct file *file, const char *path)
{
    const char *name = strrchr(path, '/') + 1;

    if (file->sized != 0 || strncmp(name, ".tmp", 4) != 0 || strlen(name) != 10)
        return false;
    for (name += 4; *name != '\0'; name++)
        if (!((*name >= '0' && *name <= '9') || (*name >= 'A' && *name <= 'Z') ||
              (*name >= 'a' && *name <= 'z')))
            return false;
    return true;
}

static bool is_checkpoint(const struct file *file, const char *path)
{
    return portus_sniff(file->head, file->head_length) != NULL ||
           portus_env_match(shim.env.match, path);
}

bool policy_named(const struct file *file, int fd)
{
    char path[PATH_MAX];

    return own_path(fd, path, sizeof(path)) && !portus_env_match(shim.env.exclude, path) &&
           is_checkpoint(file, path);
}

enum verdict policy_judge(struct file *file, int fd, size_t length, struct portus_claim *claim,
                          char *path, size_t size)
{
    bool large = length >= shim.env.min_write, beside = false;
    struct rlimit limit;
    struct statx status;
    const char *name;
    int flags, kind;

    if (!large && !shim_live())
        return VERDICT_NOT_YET;
    if (!own_path(fd, path, size))
        return VERDICT_NOT_OURS; /* no /proc, or no name any more */
    directories(AT_FDCWD, path, claim->directory);
    beside = beside_live(claim->directory);
    if (portus_env_match(shim.env.exclude, path))
        return beside ? VERDICT_EXCLUDED : VERDICT_NOT_OURS;
    file->checkpoint = large && is_checkpoint(file, path);
    if (!beside && !file->checkpoint)
        return large ? VERDICT_NOT_OURS : VERDICT_NOT_YET;

    flags = (int)syscall(SYS_fcntl, fd, F_GETFL, 0);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH))
        return VERDICT_NOT_OURS;
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) < 0 ||
        !S_ISREG(status.stx_mode))
        return VERDICT_NOT_OURS;
    if (flags & O_APPEND)
        return VERDICT_APPEND;
    if (flags & (O_DIRECT | O_SYNC | O_DSYNC))
        return VERDICT_DIRECT;
    if (status.stx_nlink != 1)
        return VERDICT_LINKS;
    if (renamed_unseen(file, path))
        return VERDICT_UNSEEN;
    kind = kind_of(fd, &name);
    if (kind == MEMORY)
        return VERDICT_MEMORY;
    if (kind == SHARED && (shim.env.shared == 0 || !file->created))
        return VERDICT_SHARED;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        return VERDICT_LIMIT;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS_LEAST)
        return VERDICT_DESCRIPTORS;
    if (!beside && shim.env.mode != PORTUS_REPORT && summary_sample())
        return VERDICT_SAMPLE;
    claim->device = makedev(status.stx_dev_major, status.stx_dev_minor);
    claim->inode = status.stx_ino;
    claim->size = status.stx_size;
    claim->leaseless = kind == SHARED;
    claim->path = path;
    return VERDICT_CAPTURE;
}

enum verdict policy_verdict(int error)
{
    switch (error) {
    case -EAGAIN:
        return VERDICT_BUSY;
    case -ENOSPC:
    case -EMFILE:
        return VERDICT_FULL;
    case -ESHUTDOWN:
        return VERDICT_PASSIVE;
    case -EHOSTDOWN:
        return VERDICT_SILENT;
    case -EINVAL:
    case -EACCES:
    case -ENOLCK:
    case -ENOSYS:
        return VERDICT_LEASE;
    default:
        return VERDICT_AGENT;
    }
}

void policy_announce(const struct portus_writer *writer, const char *path, int fd)
{
    static _Atomic bool said, said_other;
    const char *name;

    log_debug("%s is captured", path);
    if (writer->link.other_store && !atomic_exchange(&said_other, true))
        log_warn("PORTUS_STORE=%s is not used: the agent of this job was started with another one, "
                 "or none, and keeps all there; with a PORTUS_JOB of its own a program has its own",
                 shim.env.store);
    if (!writer->link.first || atomic_exchange(&said, true))
        return;
    kind_of(fd, &name);
    log_warn("%s captures checkpoints, the first in %.*s (%s); PORTUS=off switches it off, "
             "portusctl status shows it",
             PORTUS_VERSION, (int)directory_length(path) + 1, path, name);
}

bool policy_refuse(struct file *file, enum verdict verdict, const char *path, const char *why)
{
    static _Atomic uint32_t said;
    bool require = shim.env.mode == PORTUS_REQUIRE && file->checkpoint;
    const char *now = require ? "the write fails, as PORTUS=require wants" : "written as usual";
    const char *crc = shim.env.crc == PORTUS_CRC_OFFLOAD && !require ? ", with a faster CRC" : "";
    int length = (int)directory_length(path) + 1;
    const char *name;

    if (!file->checkpoint)
        return false; /* only to be kept in order, which it is by now */
    if (!file->counted)
        summary_refused(verdict);
    file->counted = true;
    if (atomic_fetch_or(&said, 1u << verdict) & (1u << verdict))
        return require;
    system_at(path, length, &name);
    switch (verdict) {
    case VERDICT_SHARED:
        log_warn("%.*s is %s: %s%s; PORTUS_SHARED=1 would capture new files (see README)", length,
                 path, name, now, crc);
        break;
    case VERDICT_MEMORY:
        log_warn("%.*s is %s, in memory already: %s%s", length, path, name, now, crc);
        break;
    case VERDICT_AGENT:
        log_warn("%s: %s: %s%s", path, why != NULL ? why : words[verdict], now, crc);
        break;
    default:
        log_warn("%s: %s: %s%s", path, words[verdict], now, crc);
    }
    return require;
}

int policy_open(int at, const char *path, int flags)
{
    uint64_t directory[PORTUS_ANCESTORS];
    struct statx status;
    int saved = errno, error = 0;

    if (!(flags & (O_CREAT | O_TRUNC)) || path == NULL || !shim_on() || !shim_own() ||
        shim_unordered())
        return 0;
    if (shim_control() == NULL)
        return -shim_barrier_at("open", at, path); /* looks for others of this job */
    if (!shim_live())
        return 0;
    directories(at, path, directory);
    if (directory[0] == 0 || beside_live(directory)) {
        /* What a new or empty file gets is captured in its place; only its creation is early. */
        bool exists = syscall(SYS_statx, at, path, 0, STATX_SIZE, &status) == 0;
        bool empty = exists ? status.stx_size == 0 : errno == ENOENT;
        bool kept = portus_env_match(shim.env.match, path) && empty && directory[0] != 0 &&
                    !(flags & (O_APPEND | O_DIRECT));
        if (!kept && !(exists && !(flags & O_TRUNC)))
            error = -shim_barrier_at("open", at, path);
    }
    errno = saved;
    return error;
}

enum before policy_before(int at, const char *path, int flags)
{
    struct statx status;
    int saved = errno;
    enum before before = WAS_NOT;

    if (path != NULL && shim_on() && ((flags & O_TRUNC) || shim.env.shared != 0) &&
        syscall(SYS_statx, at, path, 0, STATX_SIZE, &status) == 0)
        before = status.stx_size > 0 ? WAS_FULL : WAS_EMPTY;
    errno = saved;
    return before;
}

void policy_opened(int fd, int flags, enum before before)
{
    struct statx status;
    int saved = errno;

    if (fd < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return;
    if (flags & (O_APPEND | O_DIRECT | O_SYNC | O_DSYNC | O_PATH | (O_TMPFILE & ~O_DIRECTORY)))
        return;
    if (!(flags & (O_CREAT | O_TRUNC)) || !shim_on())
        return;
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_TYPE, &status) < 0 ||
        !S_ISREG(status.stx_mode) || status.stx_size != 0) {
        errno = saved;
        return;
    }
    file_candidate(fd, (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) || before == WAS_NOT,
                   before == WAS_FULL);
    errno = saved;
}
