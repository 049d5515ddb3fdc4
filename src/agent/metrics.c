/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics.c -- what PORTUS_METRICS tells of the agent, for node_exporter's textfile collector
 *
 * A file that is replaced as a whole every few seconds, and a last time when the agent
 * ends. Labels are the job, the node and the mount; never a file's name. Counters begin
 * with the agent: Prometheus takes that for what it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/futex.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/name.h"
#include "common/scribe.h"

#define EVERY_NS 5000000000ull
#define ROOM (128u << 10)
#define END_MS 300

/* Where a device is mounted, the first place if there are several. */
static void find_mount(char *path, size_t room, uint64_t device)
{
    unsigned major, minor;
    char line[2 * PATH_MAX], where[PATH_MAX];
    FILE *file = fopen("/proc/self/mountinfo", "re");

    path[0] = '\0';
    while (file != NULL && path[0] == '\0' && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "%*d %*d %u:%u %*s %4095s", &major, &minor, where) == 3 &&
            makedev(major, minor) == device)
            snprintf(path, room, "%.*s", (int)room - 1, where);
    if (file != NULL)
        fclose(file);
    if (path[0] == '\0') /* btrfs has devices that are mounted nowhere */
        snprintf(path, room, "%u:%u", major(device), minor(device));
}

/* Where a file's numbers belong. */
static struct agent_mount *mount_of(struct agent *agent, unsigned number)
{
    struct agent_state *state = agent->state;
    uint64_t device = agent->control->file[number].device;
    struct agent_mount *mount = state->mount;

    for (; mount < state->mount + state->mounts; mount++)
        if (mount->device == device)
            return mount;
    if (state->mounts == AGENT_MOUNTS)
        return &state->mount[AGENT_MOUNTS - 1];
    mount->device = device;
    find_mount(mount->path, sizeof(mount->path), device);
    if (state->mounts == AGENT_MOUNTS - 1)
        snprintf(mount->path, sizeof(mount->path), "others");
    state->mounts++;
    return mount;
}

static bool on(const struct agent *agent)
{
    return agent->state->env.metrics[0] != '\0';
}

void agent_metrics_drained(struct agent *agent, unsigned number, uint64_t bytes, int error)
{
    struct agent_mount *mount;

    if (!on(agent))
        return;
    mount = mount_of(agent, number);
    mount->bytes += bytes;
    mount->errors += error != 0;
}

void agent_metrics_whole(struct agent *agent, unsigned number)
{
    uint64_t written = atomic_load(&agent->control->file[number].written), now;
    struct agent_mount *mount;
    struct timespec clock;

    if (!on(agent))
        return;
    mount = mount_of(agent, number);
    clock_gettime(CLOCK_REALTIME, &clock);
    now = (uint64_t)clock.tv_sec * 1000000000u + (uint64_t)clock.tv_nsec;
    mount->files++;
    if (written != 0 && now > written)
        mount->lag_ns += now - written;
}

/* Live files of each mount: how many, their bytes that are not drained, the oldest's age. */
struct live {
    uint64_t files, bytes, since;
};

static void look(struct agent *agent, struct live live[AGENT_MOUNTS])
{
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        const struct portus_file *file = &agent->control->file[i];
        uint64_t captured, drained;
        struct live *at;

        if (agent->state->file[i] == 0)
            continue;
        at = &live[mount_of(agent, i) - agent->state->mount];
        captured = atomic_load(&file->captured);
        drained = atomic_load(&file->drained);
        at->files++;
        if (captured <= drained)
            continue;
        at->bytes += captured - drained;
        if (at->since == 0 || file->since_ns < at->since)
            at->since = file->since_ns;
    }
}

static void put_mounts(struct agent *agent, struct portus_metrics *metrics)
{
    static const struct {
        const char *name, *type, *help;
    } family[] = {
        {"portus_live_files", "gauge", "Files that are captured and no ordinary ones again yet."},
        {"portus_undrained_bytes", "gauge", "Bytes that are captured and not in their files yet."},
        {"portus_undrained_oldest_seconds", "gauge",
         "How long ago the oldest file was begun that has such bytes; 0: there is none."},
        {"portus_drained_bytes_total", "counter", "Bytes that were written into their files."},
        {"portus_drained_files_total", "counter", "Files that became ordinary ones again."},
        {"portus_drain_lag_seconds_total", "counter",
         "Sum over these files: from the program's last write until all bytes were in the file."},
        {"portus_drain_errors_total", "counter", "Files whose bytes could not be written."},
    };
    struct live live[AGENT_MOUNTS] = {0};
    uint64_t now = portus_now();

    look(agent, live);
    for (unsigned i = 0; i < sizeof(family) / sizeof(family[0]); i++) {
        portus_metrics_family(metrics, family[i].name, family[i].type, family[i].help);
        for (unsigned j = 0; j < agent->state->mounts; j++) {
            const struct agent_mount *mount = &agent->state->mount[j];
            const double value[] = {
                (double)live[j].files,
                (double)live[j].bytes,
                live[j].since != 0 && live[j].since < now ? (double)(now - live[j].since) / 1e9 : 0,
                (double)mount->bytes,
                (double)mount->files,
                (double)mount->lag_ns / 1e9,
                (double)mount->errors,
            };
            char labels[PORTUS_LABELS] = "";

            portus_metrics_label(labels, "mount", mount->path);
            portus_metrics_value(metrics, labels, value[i]);
        }
    }
}

static void put_reasons(struct agent *agent, struct portus_metrics *metrics)
{
#define REASON_LABEL(name, label, words) label,
    static const char *const reasons[] = {PORTUS_REASONS(REASON_LABEL)};

    portus_metrics_family(metrics, "portus_not_captured_total", "counter",
                          "Checkpoints that programs wrote as usual, by reason.");
    for (unsigned i = 0; i < PORTUS_REASON_COUNT; i++) {
        char labels[PORTUS_LABELS] = "";

        portus_metrics_label(labels, "reason", reasons[i]);
        portus_metrics_value(metrics, labels, (double)atomic_load(&agent->control->refused[i]));
    }
}

static void put_all(struct agent *agent, struct portus_metrics *metrics, bool ends)
{
    struct portus_control *control = agent->control;
    uint64_t ring = 0, sessions = 0;
    struct timespec now;

    for (unsigned i = 0; i < PORTUS_SESSIONS; i++) {
        if (atomic_load(&control->session[i].state) == PORTUS_SESSION_FREE)
            continue;
        sessions++;
        ring += agent->state->session[i].ring_bytes;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    portus_metrics_one(metrics, "portus_up", "gauge", "1 while the agent runs.", ends ? 0 : 1);
    portus_metrics_one(metrics, "portus_updated_timestamp_seconds", "gauge",
                       "When these values were written.",
                       (double)now.tv_sec + (double)now.tv_nsec / 1e9);
    portus_metrics_one(metrics, "portus_capturing", "gauge", "0: switched off, or told to end.",
                       atomic_load(&control->passive) == PORTUS_CAPTURING);
    portus_metrics_one(metrics, "portus_programs", "gauge", "Programs that are connected.",
                       (double)sessions);
    portus_metrics_one(metrics, "portus_ring_bytes", "gauge", "Memory for captured bytes.",
                       (double)ring);
    portus_metrics_one(metrics, "portus_drain_rate_bytes", "gauge",
                       "Bytes a second that are written into files, lately; 0: not known.",
                       (double)atomic_load(&control->drain_rate));
    portus_metrics_one(metrics, "portus_undrained_limit_bytes", "gauge",
                       "Most bytes that a program may have captured and not drained.",
                       (double)atomic_load(&control->undrained_limit));
    portus_metrics_one(metrics, "portus_waits_total", "counter",
                       "Calls of programs that waited for the drain.",
                       (double)atomic_load(&control->waits));
    portus_metrics_one(metrics, "portus_wait_seconds_total", "counter", "How long they did.",
                       (double)atomic_load(&control->waited_ns) / 1e9);
    portus_metrics_one(metrics, "portus_capture_seconds_total", "counter",
                       "How long captured writes took.",
                       (double)atomic_load(&control->capture_ns) / 1e9);
    portus_metrics_one(metrics, "portus_errors_total", "counter", "Errors that the agent met.",
                       (double)atomic_load(&control->errors));
    portus_metrics_one(metrics, "portus_worker_restarts_total", "counter",
                       "Workers that the keeper had to replace.",
                       (double)atomic_load(&control->restarts));
    put_mounts(agent, metrics);
    put_reasons(agent, metrics);
    if (!agent_store_configured(agent))
        return;
    portus_metrics_one(metrics, "portus_store_connected", "gauge", "1 while portusd is there.",
                       agent->state->store_ready);
    portus_metrics_one(metrics, "portus_kept_total", "counter", "Files that the store committed.",
                       (double)agent->state->kept);
    portus_metrics_one(metrics, "portus_not_kept_total", "counter",
                       "Files that it did not: no room, changed meanwhile, or an error.",
                       (double)agent->state->not_kept);
}

/* Two agents that share a directory have names of their own there. */
static void name_file(const struct agent *agent, char path[PATH_MAX])
{
    struct sockaddr_un address = {0};
    socklen_t length = 0;
    struct stat status;
    uint64_t hash = PORTUS_HASH_EMPTY;
    const char *given = agent->state->env.metrics;

    if (stat(given, &status) < 0 || !S_ISDIR(status.st_mode)) {
        snprintf(path, PATH_MAX, "%s", given);
        return;
    }
    if (portus_name(&address, &length, agent->state->env.job) == 0)
        hash = portus_hash(hash, address.sun_path, sizeof(address.sun_path));
    snprintf(path, PATH_MAX, "%s/portus-%u-%08x.prom", given, (unsigned)geteuid(),
             (unsigned)(hash ^ hash >> 32));
}

/* 0 or an errno. */
static int replace(const char *path, const char *text, size_t length)
{
    char new[PATH_MAX + 32];
    int fd, error = 0;

    snprintf(new, sizeof(new), "%s.%d.new", path, (int)getpid());
    fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return errno;
    errno = 0;
    /* For a collector, which is another user; our umask is narrower. */
    if (fchmod(fd, 0644) < 0 || write(fd, text, length) != (ssize_t)length)
        error = errno != 0 ? errno : EIO;
    close(fd);
    if (error == 0 && rename(new, path) < 0)
        error = errno;
    if (error != 0)
        unlink(new);
    return error;
}

static const struct agent *source; /* for write_file, by whose thread it is read */

static void write_file(const char *text, size_t length)
{
    static bool told;
    char path[PATH_MAX];
    int error;

    name_file(source, path);
    error = replace(path, text, length);
    if (error != 0 && !told)
        log_warn("%s: %s: no metrics are written", path, strerror(error));
    told = error != 0;
}

void agent_metrics_turn(struct agent *agent, bool ends)
{
    static struct portus_scribe scribe = {.write = write_file};
    static char text[ROOM], node[HOST_NAME_MAX + 1];
    static bool told;
    char labels[PORTUS_LABELS] = "";
    struct portus_metrics metrics = {.text = text, .room = sizeof(text), .labels = labels};
    uint64_t now;

    if (!on(agent))
        return;
    now = portus_now();
    if (!ends && agent->measured != 0 && now - agent->measured < EVERY_NS)
        return;
    agent->measured = now;
    if (source == NULL)
        source = agent;
    gethostname(node, sizeof(node) - 1);
    portus_metrics_label(labels, "job", agent->state->env.job);
    portus_metrics_label(labels, "node", node);
    put_all(agent, &metrics, ends);
    if (!metrics.cut)
        portus_scribe_leave(&scribe, text, metrics.used);
    else if (!told)
        log_warn("%s: more than %u bytes: no metrics are written", agent->state->env.metrics, ROOM);
    told = metrics.cut;
    if (ends)
        portus_scribe_flush(&scribe, END_MS);
}
