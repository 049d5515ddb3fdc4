/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.c -- waits until all that was captured before has reached its files
 *
 * What must be waited for is fixed at the start: the heads of all sessions. So a
 * busy neighbour cannot hold a rename for ever. Of other clients only the control
 * segment is looked at; when the agent is gone, each of them replays its own log
 * and advances its tail there, and one that is gone too has nothing left to wait
 * for.
 *
 * A shared file system that has not answered for seconds holds up what goes there, and
 * nothing else: as it would if each program wrote there itself.
 */
#include "client/barrier.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PAUSE_MS 20
#define STOPPED_NS 1000000000ull

struct target {
    uint64_t sequence;
    uint32_t serial;
};

static bool reached(const struct portus_session *session, const struct target *target)
{
    return atomic_load(&session->state) == PORTUS_SESSION_FREE ||
           atomic_load(&session->serial) != target->serial ||
           atomic_load(&session->tail) >= target->sequence;
}

/* The device that a place is on, also one that is not there yet; 0: not known. */
static uint64_t device_of(struct portus_place place)
{
    char path[PATH_MAX];
    struct statx status;

    if (place.path == NULL || strlen(place.path) >= sizeof(path))
        return 0;
    strcpy(path, place.path);
    while (syscall(SYS_statx, place.at, path,
                   AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC | (path[0] == '\0' ? AT_EMPTY_PATH : 0),
                   STATX_TYPE, &status) < 0) {
        char *slash = strrchr(path, '/');

        if (errno != ENOENT || path[0] == '\0')
            return 0;
        if (slash == NULL)
            strcpy(path, strcmp(path, ".") == 0 ? "" : ".");
        else
            slash[slash == path && slash[1] != '\0'] = '\0';
    }
    return makedev(status.stx_dev_major, status.stx_dev_minor);
}

/*
 * Whether all that a session waits with is to go to a file system that does not answer, and not
 * to where this place is. What was closed without waiting somebody may count on: that is waited
 * for.
 */
static bool elsewhere(const struct portus_control *control, uint32_t number,
                      struct portus_place place)
{
    const struct portus_session *session = &control->session[number];
    uint64_t silent = atomic_load(&session->silent), tail = atomic_load(&session->tail), device;

    if (silent == 0 || place.path == NULL)
        return false;
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        const struct portus_file *file = &control->file[i];
        uint32_t state = atomic_load(&file->state);
        if (atomic_load(&file->owner) == number + 1 && state != PORTUS_FILE_FREE &&
            state != PORTUS_FILE_DONE && atomic_load(&file->last) >> 1 > tail &&
            (file->device != silent || atomic_load(&file->closed) == PORTUS_CLOSED_EARLY))
            return false;
    }
    device = device_of(place);
    return device != 0 && device != silent;
}

static void wait_for_other(const struct portus_link *link, uint32_t number,
                           const struct target *target, struct portus_place place)
{
    struct portus_session *session = &link->control->session[number];
    struct portus_control *control = link->control;
    struct portus_patience patience = {0};
    uint64_t tail = atomic_load(&session->tail), moved = portus_now();

    while (!reached(session, target)) {
        uint32_t progress = atomic_load(&control->progress);
        char state = portus_process_state(atomic_load(&session->pid));

        if (elsewhere(control, number, place))
            return;
        if (portus_link_dead(link)) {
            if (state == 0 || state == 'Z' || state == 'X')
                return;
        } else {
            portus_link_prod(link, &patience);
        }
        if (atomic_load(&session->tail) != tail) {
            tail = atomic_load(&session->tail);
            moved = portus_now();
        } else if ((state == 'T' || state == 't') && portus_now() - moved > STOPPED_NS) {
            return; /* stopped in the middle of a write, which has not returned yet */
        }
        atomic_fetch_add(&control->progress_waiters, 1);
        if (!reached(session, target))
            portus_futex_wait(&control->progress, progress, PAUSE_MS);
        atomic_fetch_sub(&control->progress_waiters, 1);
    }
}

static void wait_for_own(struct portus_writer *writer, uint64_t sequence, struct portus_place place)
{
    struct portus_patience patience = {0};

    while (atomic_load(&writer->session->tail) < sequence && !atomic_load(&writer->gone) &&
           !elsewhere(writer->link.control, writer->link.session, place))
        portus_writer_pause(writer, &patience);
}

/* Whether that file was closed without waiting, and its file system may not have it all yet. */
static bool behind(const struct portus_file *file, uint64_t since)
{
    uint32_t state = atomic_load(&file->state);

    return (state == PORTUS_FILE_LIVE || state == PORTUS_FILE_TRIMMED) &&
           atomic_load(&file->leaseless) != 0 &&
           atomic_load(&file->closed) == PORTUS_CLOSED_EARLY && file->since_ns == since;
}

/*
 * Files that were closed without waiting (PORTUS_SHARED=2) are there for others when the agent has
 * closed them, too: NFS sends their last bytes then.
 */
static void wait_for_closed(const struct portus_link *link, uint64_t *began)
{
    struct portus_control *control = link->control;
    struct portus_patience patience = {0};
    unsigned seen = 0;

    for (unsigned i = 0; i < PORTUS_FILES && seen < atomic_load(&control->live); i++) {
        const struct portus_file *file = &control->file[i];
        uint32_t state = atomic_load(&file->state);
        uint64_t since = file->since_ns;

        if (state != PORTUS_FILE_LIVE && state != PORTUS_FILE_TRIMMED)
            continue;
        seen++;
        while (behind(file, since) && !portus_link_dead(link)) {
            uint32_t progress = atomic_load(&control->progress);

            if (*began == 0)
                *began = portus_now();
            portus_link_prod(link, &patience);
            atomic_fetch_add(&control->progress_waiters, 1);
            if (behind(file, since))
                portus_futex_wait(&control->progress, progress, PAUSE_MS);
            atomic_fetch_sub(&control->progress_waiters, 1);
        }
    }
}

int portus_barrier(const struct portus_link *link, struct portus_writer *writer,
                   struct portus_place place, uint64_t *waited)
{
    struct portus_control *control = link->control;
    struct target target[PORTUS_SESSIONS];
    uint64_t began = 0;
    int saved = errno, error = 0;

    for (unsigned i = 0; i < PORTUS_SESSIONS; i++) {
        target[i].serial = atomic_load(&control->session[i].serial);
        target[i].sequence = 0;
        if (atomic_load(&control->session[i].state) != PORTUS_SESSION_FREE)
            target[i].sequence = atomic_load(&control->session[i].head) >> 1;
    }
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++) {
        struct portus_session *session = &control->session[i];
        if (reached(session, &target[i]))
            continue;
        if (began == 0)
            began = portus_now();
        if (writer != NULL && i == writer->link.session)
            wait_for_own(writer, target[i].sequence, place);
        else
            wait_for_other(link, i, &target[i], place);
    }
    wait_for_closed(link, &began);
    if (began != 0)
        *waited += portus_now() - began;
    if (writer != NULL)
        error = portus_writer_error(writer);
    errno = saved;
    return error;
}

/* Whether nothing of a closed file would be lost with the ring. */
static bool safe(const struct portus_control *control, const struct portus_file *file,
                 uint32_t owner)
{
    uint32_t state = atomic_load(&file->state);
    uint64_t last = atomic_load(&file->last) >> 1;

    return atomic_load(&file->owner) != owner || state == PORTUS_FILE_FREE ||
           state == PORTUS_FILE_DONE || atomic_load(&file->kept) >= last ||
           atomic_load(&control->session[owner - 1].tail) >= last;
}

int portus_barrier_kept(const struct portus_link *link, struct portus_writer *writer,
                        struct portus_place place, uint64_t *waited)
{
    struct portus_control *control = link->control;
    struct portus_patience patience = {0};
    uint64_t began = 0;
    int saved = errno, error = 0;

    for (unsigned i = 0; i < PORTUS_FILES && atomic_load(&control->live) != 0; i++) {
        struct portus_file *file = &control->file[i];
        uint32_t owner = atomic_load(&file->owner);
        bool own = writer != NULL && owner == writer->link.session + 1;

        if (owner == 0 || owner > PORTUS_SESSIONS || atomic_load(&file->closed) == 0)
            continue;
        while (!safe(control, file, owner) && !elsewhere(control, owner - 1, place)) {
            uint32_t progress = atomic_load(&control->progress);

            if (began == 0)
                began = portus_now();
            if (portus_link_dead(link) || (own && atomic_load(&writer->gone)))
                return portus_barrier(link, writer, place, waited);
            if (own) {
                portus_writer_pause(writer, &patience);
                continue;
            }
            portus_link_prod(link, &patience);
            atomic_fetch_add(&control->progress_waiters, 1);
            if (!safe(control, file, owner))
                portus_futex_wait(&control->progress, progress, PAUSE_MS);
            atomic_fetch_sub(&control->progress_waiters, 1);
        }
    }
    if (began != 0)
        *waited += portus_now() - began;
    if (writer != NULL)
        error = portus_writer_error(writer);
    errno = saved;
    return error;
}
