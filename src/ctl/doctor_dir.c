// SPDX-License-Identifier: BSD-3-Clause
/*
 * doctor_dir.c -- doctor's look at a directory: would a checkpoint there be captured?
 *
 * The kind of file system is told by its magic number, since FUSE grants leases
 * that bind nobody elsewhere; on those of the list it is tried whether a lease
 * and a reservation of blocks can be had, on a file that is gone at once. The
 * list is the shim's (preload/policy.c): a new file system is entered in both.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ctl/doctor.h"
#include "ctl/text.h"

enum kind {
    KIND_CAPTURED,
    KIND_MEMORY, /* written at memory speed anyway */
    KIND_SHARED, /* others may open a file without our lease; also what is not known */
};

static const struct {
    uint32_t magic; /* <linux/magic.h>, and the file systems' own sources */
    enum kind kind;
    const char *name;
} known[] = {
    {0x0000ef53, KIND_CAPTURED, "ext4"}, /* ext2 and ext3 too */
    {0x58465342, KIND_CAPTURED, "xfs"},     {0x9123683e, KIND_CAPTURED, "btrfs"},
    {0xf2f52010, KIND_CAPTURED, "f2fs"},    {0x794c7630, KIND_CAPTURED, "overlay"},
    {0x01021994, KIND_MEMORY, "tmpfs"},     {0x858458f6, KIND_MEMORY, "ramfs"},
    {0x958458f6, KIND_MEMORY, "hugetlbfs"}, {0x00006969, KIND_SHARED, "nfs"},
    {0x65735546, KIND_SHARED, "fuse"},      {0xff534d42, KIND_SHARED, "cifs"},
    {0xfe534d42, KIND_SHARED, "smb"},       {0x0000517b, KIND_SHARED, "smb"},
    {0x0bd00bd0, KIND_SHARED, "lustre"},    {0x47504653, KIND_SHARED, "gpfs"},
    {0x00c36400, KIND_SHARED, "ceph"},      {0x01021997, KIND_SHARED, "9p"},
    {0x19830326, KIND_SHARED, "beegfs"},    {0x5346414f, KIND_SHARED, "afs"},
    {0x6b414653, KIND_SHARED, "afs"},       {0x73757245, KIND_SHARED, "coda"},
    {0x7461636f, KIND_SHARED, "ocfs2"},     {0x01161970, KIND_SHARED, "gfs2"},
    {0x20030528, KIND_SHARED, "orangefs"},  {0xaad7aaea, KIND_SHARED, "panfs"},
    {0x786f4256, KIND_SHARED, "vboxsf"},    {0x2fc12fc1, KIND_SHARED, "zfs"},
    {0xca451a4e, KIND_SHARED, "bcachefs"},  {0x00004d44, KIND_SHARED, "vfat"},
    {0x2011bab0, KIND_SHARED, "exfat"},     {0x7366746e, KIND_SHARED, "ntfs"},
    {0x3153464a, KIND_SHARED, "jfs"},       {0x00003434, KIND_SHARED, "nilfs"},
};

#define NAME 40

static enum kind kind_of(uint32_t magic, char name[NAME])
{
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].magic == magic) {
            snprintf(name, NAME, "%s", known[i].name);
            return known[i].kind;
        }
    snprintf(name, NAME, "unknown file system 0x%x", magic);
    return KIND_SHARED;
}

/* The two things that capture needs of a file; each 0 or a negative errno. */
struct trial {
    int create, reserve, lease;
};

/* As the shim does it: an owner and a signal first, the lease last. The signals are blocked. */
static int try_lease(int fd)
{
    int error = 0;

    if (fcntl(fd, F_SETSIG, SIGRTMIN) < 0 || fcntl(fd, F_SETOWN, getpid()) < 0 ||
        fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
        return -errno;
    if (fcntl(fd, F_GETLEASE) != F_WRLCK)
        error = -EAGAIN; /* somebody has opened it meanwhile: an indexer, a scanner */
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return error;
}

static struct trial try_file(const char *directory)
{
    struct trial trial = {0};
    char path[PATH_MAX];
    sigset_t all, before;
    int fd;

    if (snprintf(path, sizeof(path), "%s/.portusctl-XXXXXX", directory) >= (int)sizeof(path)) {
        trial.create = -ENAMETOOLONG;
        return trial;
    }
    /* Nothing may end us while the file is there, and no lease signal may arrive. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        trial.create = -errno;
    } else {
        if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1 << 20) < 0)
            trial.reserve = -errno;
        trial.lease = try_lease(fd);
        unlink(path);
        close(fd);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return trial;
}

/* A file system of the list: what was found by trying. */
static void say_trial(struct doctor *doctor, const char *check, const char *name, const char *path)
{
    struct trial trial = try_file(path);

    if (trial.create != 0)
        doctor_say(doctor, OFF, check, "name a directory that you can write to",
                   "%s: no file can be created: %s", name, strerror(-trial.create));
    else if (trial.lease == -EAGAIN)
        doctor_say(doctor, SLOWER, check, "find out which program opens new files (an indexer?)",
                   "%s: no lease: somebody opened the new file at once", name);
    else if (trial.lease != 0)
        doctor_say(doctor, OFF, check, "save to another file system",
                   "%s: no lease can be taken: %s: files are written as usual", name,
                   strerror(-trial.lease));
    else if (trial.reserve == -ENOSPC || trial.reserve == -EDQUOT)
        doctor_say(doctor, SLOWER, check, "make room, or ask for a larger quota",
                   "%s: no block can be reserved: %s", name, strerror(-trial.reserve));
    else if (trial.reserve != 0)
        doctor_say(doctor, OFF, check, "save to another file system",
                   "%s: blocks cannot be reserved: %s: files are written as usual", name,
                   strerror(-trial.reserve));
    else
        doctor_say(doctor, WORKS, check, "", "%s: leases and reserved blocks work", name);
}

void doctor_directory(struct doctor *doctor, const char *path)
{
    char check[PATH_MAX + 16], name[NAME], bytes[TEXT_BYTES];
    struct statvfs space;
    struct statfs system;
    enum kind kind;

    snprintf(check, sizeof(check), "directory %s", path);
    if (statfs(path, &system) < 0) {
        doctor_say(doctor, OFF, check, "", "cannot be examined: %s", strerror(errno));
        return;
    }
    kind = kind_of((uint32_t)system.f_type, name);
    if (access(path, W_OK | X_OK) < 0)
        doctor_say(doctor, OFF, check, "name a directory that you can write to",
                   "%s: no file can be created: %s", name, strerror(errno));
    else if (kind == KIND_CAPTURED)
        say_trial(doctor, check, name, path);
    else if (kind == KIND_MEMORY)
        doctor_say(doctor, SLOWER, check, "",
                   "%s: its files are in memory already: written as usual, at memory speed", name);
    else if (doctor->env->shared != 0)
        doctor_say(doctor, WORKS, check, "",
                   "%s: new files are captured, as PORTUS_SHARED=%d says, and no reader waits",
                   name, doctor->env->shared);
    else
        doctor_say(doctor, OFF, check,
                   "PORTUS_SHARED=1 captures it: see portus(7), SHARED FILE SYSTEMS",
                   "%s: written as usual, with a faster CRC", name);

    if (statvfs(path, &space) == 0 && space.f_blocks != 0) {
        uint64_t available = (uint64_t)space.f_bavail * space.f_frsize;

        if (available < 1ull << 30)
            doctor_say(doctor, SLOWER, check, "make room",
                       "%s are free: what does not fit is not captured, and fails as usual",
                       text_bytes(bytes, available));
        else
            doctor_say(doctor, WORKS, check, "", "%s are free", text_bytes(bytes, available));
    }
}
