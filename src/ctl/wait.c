// SPDX-License-Identifier: BSD-3-Clause
/*
 * wait.c -- portusctl wait: until checkpoints are drained and synced
 *
 * With paths: until none of these files is live, then fsync. A live file is never
 * opened here while it can be seen to be live: an opener breaks its lease, and the
 * program would lose what the capture gives it. Afterwards it is opened without
 * blocking, so that a file that another agent holds (another container's) delays
 * us but cannot hang us.
 *
 * Without paths: until what was reserved at the beginning is replayed and the
 * files that were closed by then are ordinary files, then syncfs. Their
 * directories are opened at the beginning, because syncfs reports the errors
 * since then.
 *
 * What must not happen is to exit with 0 over bytes that are lost. So an error
 * that may concern the file in question counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/futex.h"
#include "ctl/bar.h"
#include "ctl/ctl.h"
#include "ctl/look.h"
#include "ctl/target.h"
#include "ctl/text.h"

#define FILE_SYSTEMS 32

/* What a session had reserved when we began. */
struct goal {
    uint32_t serial;
    uint64_t head, captured;
    uint64_t base; /* bytes drained then */
    bool noted, reached;
};

static struct {
    struct portus_link link;
    bool linked;
    uint64_t began_ns, timeout_ns;
    struct bar bar;
    struct target *target;
    unsigned targets; /* 0: everything that was captured */
    struct mark mark[PORTUS_FILES];
    unsigned marks;
    struct goal goal[PORTUS_SESSIONS];
    uint32_t errors; /* that the agent had counted when we began */
    struct {
        uint64_t device;
        int fd;
    } system[FILE_SYSTEMS];
    unsigned systems;
    bool sync_all;       /* some file's system could not be opened: sync() instead */
    uint64_t done, left; /* bytes of what we wait for, by the last look */
} run;

static struct view view;

/* The file's name for a message. */
static const char *name_of(const struct view_file *file)
{
    static char name[TEXT_ROOM(PORTUS_FILE_PATH + 4)];

    for (unsigned i = 0; i < run.targets; i++)
        if (!run.target[i].directory && target_covers(&run.target[i], file))
            return text_safe(name, sizeof(name), run.target[i].path);
    return text_safe(name, sizeof(name), file->path);
}

static int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int fail(const char *format, ...)
{
    char text[900];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    bar_clear(&run.bar);
    complain("wait: %s", text);
    return -1;
}

static bool timed_out(void)
{
    return portus_now() - run.began_ns >= run.timeout_ns;
}

/* Remembers the file system of a live file, to sync it afterwards. */
static void keep_system(const struct view_file *file)
{
    char directory[sizeof(file->path)];
    struct stat status;
    char *slash;
    int fd = -1;

    for (unsigned i = 0; i < run.systems; i++)
        if (run.system[i].device == file->device)
            return;
    memcpy(directory, file->path, sizeof(directory));
    slash = strrchr(directory, '/');
    if (directory[0] == '/' && slash != NULL && run.systems < FILE_SYSTEMS) {
        slash[slash == directory] = '\0';
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0 || fstat(fd, &status) < 0 || status.st_dev != file->device) {
        if (fd >= 0)
            close(fd);
        run.sync_all = true;
        return;
    }
    run.system[run.systems].device = file->device;
    run.system[run.systems++].fd = fd;
}

/* Notes what has to be drained. */
static void begin(void)
{
    look(&view, run.link.control);
    run.errors = view.errors;
    for (unsigned i = 0; i < view.files; i++) {
        const struct view_file *file = &view.file[i];
        bool covered = run.targets == 0;

        for (unsigned t = 0; t < run.targets; t++)
            covered = covered || target_covers(&run.target[t], file);
        if (!covered || !view_live(file))
            continue;
        if (run.targets == 0)
            keep_system(file);
        run.mark[run.marks++] = mark_make(file);
    }
    for (unsigned i = 0; i < view.sessions && run.targets == 0; i++) {
        const struct view_session *session = &view.session[i];

        run.goal[session->number] = (struct goal){
            .serial = session->serial,
            .head = session->head,
            .captured = session->captured,
            .base = session->drained,
            .noted = true,
        };
    }
}

static struct mark *find_mark(const struct view_file *file)
{
    for (unsigned i = 0; i < run.marks; i++)
        if (mark_is(&run.mark[i], file))
            return &run.mark[i];
    return NULL;
}

/* Whether we have to wait for this live file; without paths not for its end if it is open. */
static bool wanted(const struct view_file *file)
{
    for (unsigned i = 0; i < run.targets; i++)
        if (!run.target[i].directory && target_covers(&run.target[i], file))
            return true;
    if (run.targets == 0 && !file->closed)
        return false;
    return find_mark(file) != NULL;
}

static const struct view_session *find_session(unsigned number, uint32_t serial)
{
    for (unsigned i = 0; i < view.sessions; i++)
        if (view.session[i].number == number && view.session[i].serial == serial)
            return &view.session[i];
    return NULL;
}

/* Counts the bytes of the sessions' goals. Returns whether one is not reached yet. */
static bool goals_pending(void)
{
    bool pending = false;

    for (unsigned number = 0; number < PORTUS_SESSIONS; number++) {
        struct goal *goal = &run.goal[number];
        const struct view_session *session;
        uint64_t drained = goal->captured;

        if (!goal->noted)
            continue;
        session = goal->reached ? NULL : find_session(number, goal->serial);
        if (session == NULL || session->tail >= goal->head) {
            goal->reached = true;
        } else {
            pending = true;
            if (session->drained < drained)
                drained = session->drained;
        }
        run.left += goal->captured - drained;
        run.done += drained > goal->base ? drained - goal->base : 0;
    }
    return pending;
}

/* Looks for the marked files, whose errors have been dealt with, and counts their bytes. */
static void follow_marks(bool count)
{
    for (unsigned i = 0; i < run.marks; i++) {
        struct mark *mark = &run.mark[i];

        mark->seen = false;
        for (unsigned f = 0; f < view.files && !mark->seen; f++) {
            const struct view_file *file = &view.file[f];

            if (!mark_is(mark, file))
                continue;
            mark->seen = true;
            mark->clean = mark->clean || !view_live(file);
            mark->captured = file->captured;
            mark->drained = file->drained;
        }
        if (!mark->seen)
            mark->drained = mark->captured;
        if (!count)
            continue;
        run.left += mark->captured - mark->drained;
        run.done += mark->drained > mark->base ? mark->drained - mark->base : 0;
    }
}

/* Whether some file was gone before its last state was seen. */
static bool in_doubt(void)
{
    for (unsigned i = 0; i < run.marks; i++)
        if (!run.mark[i].seen && !run.mark[i].clean)
            return true;
    return false;
}

/* One look. Returns 1: something is left, 0: all is drained, -1: it cannot be had. */
static int step(void)
{
    const struct view_file *open_file = NULL;
    char text[160], bytes[TEXT_BYTES];
    bool pending = false;

    look(&view, run.link.control);
    run.done = run.left = 0;
    for (unsigned i = 0; i < view.files; i++) {
        const struct view_file *file = &view.file[i];
        bool want = wanted(file);

        if (file->error != 0 && (want || find_mark(file) != NULL))
            return fail("%s: the agent could not write it: %s", name_of(file),
                        text_errno(file->error));
        if (!want || !view_live(file))
            continue;
        pending = true;
        if (!file->closed)
            open_file = file;
        if (find_mark(file) == NULL && run.marks < PORTUS_FILES)
            run.mark[run.marks++] = mark_make(file);
    }
    follow_marks(run.targets != 0);
    if (run.targets == 0 && goals_pending())
        pending = true;
    if (open_file != NULL && run.left == 0)
        snprintf(text, sizeof(text), "until the program closes %s", name_of(open_file));
    else
        text[0] = '\0';
    bar_draw(&run.bar, run.done, run.left, text[0] != '\0' ? text : NULL);
    if (!pending)
        return 0;
    if (!timed_out())
        return 1;
    if (text[0] != '\0')
        return fail("timed out: a program still has %s open", name_of(open_file));
    return fail("timed out: %s are not drained", text_bytes(bytes, run.left));
}

/* Waits until all is drained. Returns 0, or -1 after a message. */
static int drain(void)
{
    char text[TEXT_ROOM(PORTUS_ERROR_TEXT)], bytes[TEXT_BYTES];
    bool dead = false;

    /* A look sees files before sessions, so an error may come between: look twice. */
    for (int quiet = 0; quiet < 2;) {
        int more = step();

        if (more < 0)
            return -1;
        quiet = more == 0 ? quiet + 1 : 0;
        if (more == 0)
            continue;
        if (dead)
            return fail("the agent is gone with %s not drained: the program writes them itself, "
                        "if it still runs: wait again, with the file's path",
                        text_bytes(bytes, run.left));
        dead = portus_link_dead(&run.link); /* what it did before it died counts: look again */
        if (!dead)
            look_pause(&run.link, &view);
    }
    if (view.errors != run.errors && in_doubt())
        return fail("the agent met an error meanwhile, perhaps of this file: %s",
                    text_safe(text, sizeof(text), view.last_error));
    return 0;
}

/* fsync of the directory that holds path, so that its name lasts too. Returns 0 or -errno. */
static int sync_parent(const char *path)
{
    char *copy = strdup(path), *slash;
    int fd, error = 0;

    if (copy == NULL)
        return -ENOMEM;
    slash = strrchr(copy, '/');
    if (slash != NULL)
        slash[slash == copy] = '\0';
    fd = open(slash != NULL ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0)
        return 0; /* it may be closed to us: the file itself is what was asked for */
    if (fsync(fd) < 0 && errno != EINVAL && errno != EBADF && errno != EROFS)
        error = -errno;
    close(fd);
    return error;
}

/* Syncs one target when it is an ordinary file. Returns 0, or -1 after a message. */
static int sync_target(const struct target *target)
{
    char name[512];
    struct timespec pause = {0, 20000000};
    int fd, error;

    text_safe(name, sizeof(name), target->path);
    for (;;) {
        fd = open(target->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0 || (errno != EWOULDBLOCK && errno != EINTR))
            break;
        if (timed_out())
            return fail("timed out: another program or agent has a lease on %s", name);
        bar_draw(&run.bar, run.done, 0, "until its lease is given back");
        nanosleep(&pause, NULL);
        if (run.linked && !portus_link_dead(&run.link) && drain() < 0)
            return -1;
    }
    if (fd < 0)
        return fail("%s: %s", name, strerror(errno));
    error = (target->directory ? syncfs(fd) : fsync(fd)) < 0 ? -errno : 0;
    close(fd);
    if (error == 0 && !target->directory)
        error = sync_parent(target->real != NULL ? target->real : target->path);
    if (error != 0 && error != -EROFS)
        return fail("%s: it is drained, but not synced: %s", name, strerror(-error));
    return 0;
}

static int sync_systems(void)
{
    for (unsigned i = 0; i < run.systems; i++)
        if (syncfs(run.system[i].fd) < 0)
            return fail("all is drained, but a file system is not synced: %s", strerror(errno));
    if (run.sync_all)
        sync();
    return 0;
}

static void report(bool agent)
{
    char bytes[TEXT_BYTES], span[TEXT_SPAN];

    bar_clear(&run.bar);
    text_span(span, portus_now() - run.began_ns);
    if (run.targets == 0 && !agent)
        puts(LOOK_NO_AGENT_TEXT ": nothing waits to be drained");
    else if (run.targets == 0 && run.marks == 0 && run.done == 0)
        puts("nothing waits to be drained (name files to have them synced)");
    else if (run.done == 0)
        printf("drained and synced after %s\n", span);
    else
        printf("drained and synced: %s in %s\n", text_bytes(bytes, run.done), span);
}

int wait_main(int argc, char **argv)
{
    struct options options;
    int operand = options_parse(&options, argc, argv, OPTION_JOB | OPTION_TIMEOUT);
    int found, failed = 0;

    if (operand < 0)
        return CTL_USAGE;
    run.began_ns = portus_now();
    run.timeout_ns = options.timeout_ns;
    run.target = calloc((size_t)(argc - operand) + 1, sizeof(*run.target));
    if (run.target == NULL) {
        complain("wait: %s", strerror(ENOMEM));
        return CTL_FAILED;
    }
    for (int i = operand; i < argc; i++) {
        int error = target_find(&run.target[run.targets++], argv[i]);

        if (error != 0) {
            char name[512];

            fail("%s: %s", text_safe(name, sizeof(name), argv[i]),
                 error == -EINVAL ? "it is no regular file and no directory" : strerror(-error));
            return CTL_FAILED;
        }
    }
    bar_start(&run.bar);
    found = look_open(&run.link, options.job, "wait");
    if (found == LOOK_ENDED && run.targets == 0)
        fail("the agent has ended just now, with what left is not known: name the files");
    if (found < 0 || (found == LOOK_ENDED && run.targets == 0))
        return CTL_FAILED;
    if (found == 0) {
        run.linked = true;
        begin();
        failed = drain();
    }
    for (unsigned i = 0; i < run.targets && failed == 0; i++)
        failed = sync_target(&run.target[i]);
    if (failed == 0)
        failed = sync_systems();
    if (failed != 0)
        return CTL_FAILED;
    report(found == 0);
    for (unsigned i = 0; i < run.targets; i++)
        target_free(&run.target[i]);
    free(run.target);
    return CTL_OK;
}
