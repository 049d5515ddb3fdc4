/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * streams.h -- calls.c's calls on names and on streams
 */
#ifndef TESTS_FUZZ_STREAMS_H
#define TESTS_FUZZ_STREAMS_H

#include "choices.h"
#include <dirent.h>
#include <sys/file.h>

/* --- names --- */

static void do_names(void)
{
    const char *from = name(), *to = name();
    unsigned flags = pick(4) ? 0 : pick(2) ? RENAME_NOREPLACE : RENAME_EXCHANGE;

    switch (pick(9)) {
    case 0:
    case 1:
    case 2:
        CALL(flags ? renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) : rename(from, to),
             "rename(%s, %s, %u)", from, to, flags);
        break;
    case 3:
        CALL(link(from, to), "link(%s, %s)", from, to);
        break;
    case 4:
        CALL(symlink(from, to), "symlink(%s, %s)", from, to);
        break;
    case 5:
        CALL(unlink(from), "unlink(%s)", from);
        break;
    case 6:
        CALL(remove(from), "remove(%s)", from);
        break;
    case 7:
        from = directories[pick(2)];
        CALL(mkdir(from, 0755), "mkdir(%s)", from);
        break;
    default:
        from = directories[pick(2)];
        CALL(rmdir(from), "rmdir(%s)", from);
    }
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void do_stat(void)
{
    int fd = descriptor(), n;
    const char *path = name();
    struct dirent **found;
    struct statx more;
    struct stat status;

    switch (pick(7)) {
    case 0:
        said_status((int)CALL(stat(path, &status), "stat(%s)", path), &status);
        break;
    case 1:
        said_status((int)CALL(lstat(path, &status), "lstat(%s)", path), &status);
        break;
    case 2:
    case 3:
        said_status((int)CALL(fstat(fd, &status), "fstat(%d)", fd), &status);
        break;
    case 4:
        if (CALL(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more), "statx(%d)", fd) == 0)
            said(S_ISDIR(more.stx_mode) ? 0 : (long long)more.stx_size, 0, "  mode %o",
                 more.stx_mode);
        break;
    case 5:
        CALL(access(path, (int)pick(8)), "access(%s)", path);
        break;
    default:
        n = scandir(".", &found, NULL,
                    (int (*)(const struct dirent **, const struct dirent **))by_name);
        for (int i = 0; i < n; i++)
            said(found[i]->d_type, 0, "  %s", found[i]->d_name), free(found[i]);
        free(n < 0 ? NULL : found);
    }
}

static void do_metadata(void)
{
    static const mode_t modes[] = {0600, 0644, 0444, 0755};
    static const int locks[] = {LOCK_EX | LOCK_NB, LOCK_SH | LOCK_NB, LOCK_UN};
    static const int more[] = {F_TLOCK, F_ULOCK, F_TEST};
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    int fd = descriptor(), how;
    const char *path = name();
    mode_t mode = ONE_OF(modes);

    switch (pick(5)) {
    case 0:
        CALL(utimensat(AT_FDCWD, path, times, 0), "utimensat(%s)", path);
        break;
    case 1:
        CALL(fchmod(fd, mode), "fchmod(%d, %o)", fd, mode);
        break;
    case 2:
        CALL(chmod(path, mode), "chmod(%s, %o)", path, mode);
        break;
    case 3:
        how = ONE_OF(locks);
        CALL(flock(fd, how), "flock(%d, %d)", fd, how);
        break;
    default:
        how = ONE_OF(more);
        CALL(lockf(fd, how, 0), "lockf(%d, %d)", fd, how);
    }
}

/* --- streams --- */

/*
 * Between reading and writing there must be a seek or a flush; and, if the stream has read
 * ahead, a seek after the descriptor was used by its number, which it may be by any call but
 * the one before.
 */
static void turn(struct stream *s)
{
    if (s->reads && number != s->opened + 1)
        CALL(fseek(s->file, 0, SEEK_CUR), "fseek(0, 1)");
    s->opened = 0;
}

static void do_fopen(void)
{
    static const char *const modes[] = {"w", "w", "w+", "r+", "a", "a+", "r", "wx"};
    static const int kinds[] = {_IOFBF, _IOFBF, _IOLBF, _IONBF};
    static const size_t sizes[] = {1, 100, 4096, 70000, 2 * MIB};
    struct stream *s = &ONE_OF(streams);
    const char *path = name(), *mode = ONE_OF(modes);
    int fd = *slot(), how = (int)pick(5), kind = ONE_OF(kinds);
    size_t size = ONE_OF(sizes);

    if (s->file != NULL && how == 0) {
        bool named = pick(3);
        CALL((s->file = freopen(named ? path : NULL, mode, s->file)) != NULL, "freopen(%s, %s)",
             named ? path : "NULL", mode);
    } else {
        if (s->file != NULL)
            CALL(fclose(s->file), "fclose");
        s->file = NULL;
        if (how < 3)
            CALL((s->file = fdopen(pick(2) ? dup(fd) : fd, mode)) != NULL, "fdopen(%d, %s)", fd,
                 mode);
        else
            CALL((s->file = fopen(path, mode)) != NULL, "fopen(%s, %s)", path, mode);
    }
    s->opened = number;
    s->reads = mode[0] == 'r' || mode[1] == '+';
    if (s->file != NULL)
        said(fileno(s->file), 0, "  fileno");
    if (s->file != NULL && pick(2))
        CALL(setvbuf(s->file, NULL, kind, size), "setvbuf(%d, %zu)", kind, size);
}

static void do_fclose(void)
{
    struct stream *s = &ONE_OF(streams);

    if (s->file != NULL)
        CALL(fclose(s->file), "fclose");
    s->file = NULL;
}

/*
 * Of a large fwrite stdio keeps the end in its buffer, the shim nothing: until the next
 * flush more is in the file than without it. So there is one at once. And stdio keeps some
 * of what could not be written at all, as the number was closed: that is not done.
 */
static void do_stream_write(void)
{
    struct stream *s = &ONE_OF(streams);
    size_t n = length(), size = pick(3) ? 1 : 1 + pick(100);
    const char *from = source();
    int how = (int)pick(6);

    if (s->file == NULL || fcntl(fileno(s->file), F_GETFD) < 0)
        return;
    turn(s);
    switch (how) {
    case 0:
        for (size_t i = 0; i < n % 9000; i++)
            putc(from[i], s->file);
        said((long long)(n % 9000), 0, "putc %d", ferror(s->file) != 0);
        break;
    case 1:
        CALL(fprintf(s->file, "%0*zu\n", (int)(n % 20000), n), "fprintf(%zu)", n % 20000);
        break;
    default:
        CALL(fwrite(from, size, n / size, s->file), "fwrite(%zu, %zu)", size, n / size);
        if (n >= BUFSIZ)
            CALL(fflush(s->file), "fflush");
    }
}

/* Not of a stream that is for writing: glibc then loses what is written to it later. */
static void do_stream_read(void)
{
    struct stream *s = &ONE_OF(streams);
    size_t n = length();
    int how = (int)pick(4);

    if (s->file == NULL || !s->reads)
        return;
    turn(s);
    if (how == 0)
        CALL(getc(s->file), "getc");
    else
        said_bytes(CALL(fread(room, 1, n, s->file), "fread(%zu)", n));
}

static void do_stream(void)
{
    struct stream *s = &ONE_OF(streams);
    long at = (long)(pick(3) ? place() : -(off_t)length());
    int whence = (int)pick(3), how = (int)pick(7);

    if (s->file == NULL)
        return;
    switch (how) {
    case 0:
    case 1:
        CALL(fflush(s->file), "fflush");
        break;
    case 2:
        CALL(fflush(NULL), "fflush(NULL)");
        break;
    case 3:
    case 4:
        CALL(fseek(s->file, at, whence), "fseek(%ld, %d)", at, whence);
        break;
    case 5:
        rewind(s->file);
        break;
    default:
        clearerr(s->file);
    }
    s->opened = 0;
    CALL(ftell(s->file), "ftell");
}

#endif
