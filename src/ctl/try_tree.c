/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * try_tree.c -- what stands in a directory, and how two of them differ
 *
 * A file is kept as a hash of each of its blocks: that tells whether it is the same as
 * another, or its beginning, when the other is long gone. By siphash, as no file may be
 * taken for another that was made to look like it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/try.h"
#include "store/siphash.h"

#define ATTRIBUTES 65536

static void *grown(void *list, size_t count, size_t size)
{
    /* By powers of two. */
    if (count != 0 && (count & (count - 1)) != 0)
        return list;
    list = realloc(list, (count != 0 ? 2 * count : 1) * size);
    if (list == NULL) {
        complain("try: %s", strerror(ENOMEM));
        exit(CTL_USAGE);
    }
    return list;
}

static char *duplicate(const char *text)
{
    char *copy = grown(NULL, 0, strlen(text) + 1);

    return strcpy(copy, text);
}

int tree_read_file(struct tree_entry *entry, const char *path)
{
    static uint64_t key[2]; /* of this process alone: no file can be made to look like another */
    static const uint8_t nothing[TREE_BLOCK];
    uint8_t piece[TREE_BLOCK];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), error = 0;
    ssize_t length = 0;
    size_t used = 0;

    if (fd < 0)
        return -errno;
    if (key[0] == 0 && getrandom(key, sizeof(key), 0) != sizeof(key))
        key[0] = 1;
    entry->block = NULL;
    entry->blocks = entry->zeros = 0;
    for (bool end = false; !end;) {
        length = read(fd, piece + used, sizeof(piece) - used);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0) {
            error = -errno;
            break;
        }
        used += (size_t)length;
        end = length == 0;
        if (used == sizeof(piece) || (end && used > 0)) {
            entry->block = grown(entry->block, entry->blocks, sizeof(*entry->block));
            entry->block[entry->blocks++] = siphash(key, piece, used);
            entry->zeros += memcmp(piece, nothing, used) == 0;
            used = 0;
        }
    }
    /* It may have grown since it was listed: what was read counts. */
    if (error == 0 && fstat(fd, &entry->status) < 0)
        error = -errno;
    close(fd);
    return error;
}

/* Names and values, sorted as the kernel gives them; only a user's own. */
static char *attributes(const char *path)
{
    static char names[ATTRIBUTES], value[ATTRIBUTES];
    ssize_t length = llistxattr(path, names, sizeof(names));
    char *text = NULL;
    size_t used = 0;

    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(names + at) + 1) {
        ssize_t size;

        if (strncmp(names + at, "user.", 5) != 0 ||
            (size = lgetxattr(path, names + at, value, sizeof(value))) < 0)
            continue;
        text = realloc(text, used + strlen(names + at) + 2 * (size_t)size + 4);
        if (text == NULL)
            return NULL;
        used += (size_t)sprintf(text + used, "%s=", names + at);
        for (ssize_t i = 0; i < size; i++)
            used += (size_t)sprintf(text + used, "%02x", (unsigned char)value[i]);
        used += (size_t)sprintf(text + used, " ");
    }
    return text;
}

static struct tree *walked;
static const char *top;

static int enter(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    struct tree_entry *entry;
    char target[PATH_MAX];
    ssize_t length;

    if (place->level == 0)
        return 0;
    walked->entry = grown(walked->entry, walked->count, sizeof(*walked->entry));
    entry = &walked->entry[walked->count++];
    *entry = (struct tree_entry){.path = duplicate(path + strlen(top) + 1), .status = *status};
    if (S_ISREG(status->st_mode)) {
        entry->error = -tree_read_file(entry, path);
        entry->target = attributes(path);
    } else if (S_ISLNK(status->st_mode) &&
               (length = readlink(path, target, sizeof(target) - 1)) >= 0) {
        target[length] = '\0';
        entry->target = duplicate(target);
    }
    return 0;
}

static int by_path(const void *one, const void *other)
{
    return strcmp(((const struct tree_entry *)one)->path, ((const struct tree_entry *)other)->path);
}

int tree_read(struct tree *tree, const char *directory)
{
    *tree = (struct tree){0};
    walked = tree;
    top = directory;
    if (nftw(directory, enter, 16, FTW_PHYS) != 0)
        return -errno;
    if (tree->count > 0)
        qsort(tree->entry, tree->count, sizeof(*tree->entry), by_path);
    return 0;
}

void tree_free(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        free(tree->entry[i].path);
        free(tree->entry[i].target);
        free(tree->entry[i].block);
    }
    free(tree->entry);
    *tree = (struct tree){0};
}

const struct tree_entry *tree_find(const struct tree *tree, const char *path)
{
    const struct tree_entry wanted = {.path = (char *)path};

    return tree->count == 0
               ? NULL
               : bsearch(&wanted, tree->entry, tree->count, sizeof(*tree->entry), by_path);
}

/* --- copies --- */

static const char *copy_to;
static int copy_error;

static int copy_bytes(const char *from, const char *to, const struct stat *status)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out = -1, error = 0;
    ssize_t length = 1;

    if (in >= 0)
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    while (out >= 0 && length > 0) {
        length = copy_file_range(in, NULL, out, NULL, 1u << 30, 0);
        if (length < 0)
            length = sendfile(out, in, NULL, 1u << 30);
    }
    if (in < 0 || out < 0 || length < 0 || fchmod(out, status->st_mode & 07777) < 0)
        error = -errno;
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) < 0 && error == 0)
        error = -errno;
    return error;
}

static int copy_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    char to[2 * PATH_MAX], target[PATH_MAX];
    ssize_t length;
    int error = 0;

    if (place->level == 0)
        return 0;
    snprintf(to, sizeof(to), "%s%s", copy_to, path + strlen(top));
    if (S_ISDIR(status->st_mode)) {
        if (mkdir(to, status->st_mode | 0700) < 0)
            error = -errno;
    } else if (S_ISREG(status->st_mode)) {
        error = copy_bytes(path, to, status);
    } else if (S_ISLNK(status->st_mode)) {
        length = readlink(path, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        if (length < 0 || symlink(target, to) < 0)
            error = -errno;
    }
    if (error == 0 && geteuid() == 0 && lchown(to, status->st_uid, status->st_gid) < 0)
        error = -errno;
    if (error == 0 && !S_ISLNK(status->st_mode)) {
        struct timespec times[2] = {status->st_atim, status->st_mtim};

        utimensat(AT_FDCWD, to, times, 0);
    }
    copy_error = error;
    return error != 0;
}

int tree_copy(const char *from, const char *to)
{
    top = from;
    copy_to = to;
    copy_error = 0;
    if (nftw(from, copy_one, 16, FTW_PHYS) < 0)
        return -errno;
    return copy_error;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    if (kind == FTW_DP ? rmdir(path) < 0 : unlink(path) < 0)
        copy_error = -errno;
    return 0;
}

int tree_remove(const char *directory)
{
    copy_error = 0;
    if (nftw(directory, remove_one, 16, FTW_PHYS | FTW_DEPTH) < 0 && errno != ENOENT)
        return -errno;
    return copy_error;
}

/* --- differences --- */

void differences_add(struct differences *out, const char *path, const char *what,
                     const char *format, ...)
{
    char says[PATH_MAX + 256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(says, sizeof(says), format, arguments);
    va_end(arguments);
    out->list = grown(out->list, out->count, sizeof(*out->list));
    out->list[out->count++] =
        (struct difference){duplicate(path), duplicate(what), duplicate(says)};
}

void differences_append(struct differences *out, const struct differences *list)
{
    for (size_t i = 0; i < list->count; i++)
        differences_add(out, list->list[i].path, list->list[i].what, "%s", list->list[i].says);
}

bool differences_have(const struct differences *list, const char *path)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->list[i].path, path) == 0)
            return true;
    return false;
}

void differences_free(struct differences *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->list[i].path);
        free(list->list[i].what);
        free(list->list[i].says);
    }
    free(list->list);
    *list = (struct differences){0};
}

static void compare_bytes(struct differences *out, const struct tree_entry *a,
                          const struct tree_entry *b)
{
    size_t least = a->blocks < b->blocks ? a->blocks : b->blocks, at = 0;

    if (a->error != 0 || b->error != 0) {
        if (a->error != b->error)
            differences_add(out, a->path, "bytes", "cannot be read (%s), plainly: %s",
                            strerror(b->error), strerror(a->error));
        return;
    }
    if (a->status.st_size != b->status.st_size)
        differences_add(out, a->path, "size", "has %lld bytes, plainly %lld",
                        (long long)b->status.st_size, (long long)a->status.st_size);
    while (at < least && a->block[at] == b->block[at])
        at++;
    if (at < least && a->status.st_size == b->status.st_size)
        differences_add(out, a->path, "bytes", "has other bytes, the first between %llu and %llu",
                        (unsigned long long)at * TREE_BLOCK,
                        (unsigned long long)(at + 1) * TREE_BLOCK);
}

static void compare_entry(struct differences *out, const struct tree_entry *a,
                          const struct tree_entry *b)
{
    const struct stat *one = &a->status, *other = &b->status;
    const char *target = a->target != NULL ? a->target : "";

    if ((one->st_mode & S_IFMT) != (other->st_mode & S_IFMT)) {
        differences_add(out, a->path, "kind", "is of another kind");
        return;
    }
    if (one->st_mode != other->st_mode)
        differences_add(out, a->path, "mode", "has mode %04o, plainly %04o", other->st_mode & 07777,
                        one->st_mode & 07777);
    if (one->st_uid != other->st_uid || one->st_gid != other->st_gid)
        differences_add(out, a->path, "owner", "has owner %u:%u, plainly %u:%u", other->st_uid,
                        other->st_gid, one->st_uid, one->st_gid);
    if (!S_ISDIR(one->st_mode) && one->st_nlink != other->st_nlink)
        differences_add(out, a->path, "links", "has %llu names, plainly %llu",
                        (unsigned long long)other->st_nlink, (unsigned long long)one->st_nlink);
    if (strcmp(target, b->target != NULL ? b->target : "") != 0)
        differences_add(out, a->path, "target",
                        S_ISLNK(one->st_mode) ? "points elsewhere" : "has other attributes");
    if (S_ISREG(one->st_mode))
        compare_bytes(out, a, b);
}

void tree_compare(struct differences *out, const struct tree *plain, const struct tree *other)
{
    size_t i = 0, j = 0;

    while (i < plain->count || j < other->count) {
        int order = i == plain->count   ? 1
                    : j == other->count ? -1
                                        : strcmp(plain->entry[i].path, other->entry[j].path);

        if (order < 0)
            differences_add(out, plain->entry[i].path, "missing", "is missing");
        else if (order > 0)
            differences_add(out, other->entry[j].path, "extra", "is not there plainly");
        else
            compare_entry(out, &plain->entry[i], &other->entry[j]);
        i += order <= 0;
        j += order >= 0;
    }
}

/* Whether two names are the same but for their numbers (of processes, of the time). */
static bool alike(const char *one, const char *other)
{
    static const char digits[] = "0123456789";

    while (*one != '\0' && *other != '\0') {
        size_t a = strspn(one, digits), b = strspn(other, digits);

        if ((a == 0) != (b == 0) || (a == 0 && *one != *other))
            return false;
        one += a != 0 ? a : 1;
        other += b != 0 ? b : 1;
    }
    return *one == *other;
}

static bool same_difference(const struct difference *a, const struct difference *b)
{
    if (strcmp(a->what, b->what) != 0)
        return false;
    return strcmp(a->path, b->path) == 0 ||
           (strcmp(a->what, "extra") == 0 && alike(a->path, b->path));
}

void differences_split(struct differences *list, const struct differences *again,
                       struct differences *own)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        struct difference *difference = &list->list[i];
        bool found = false;

        for (size_t j = 0; j < again->count && !found; j++)
            found = same_difference(difference, &again->list[j]);
        if (!found) {
            list->list[kept++] = *difference;
            continue;
        }
        own->list = grown(own->list, own->count, sizeof(*own->list));
        own->list[own->count++] = *difference;
    }
    list->count = kept;
}
