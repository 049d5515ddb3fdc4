/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.c -- what PORTUS_TRACE shows of the agent
 *
 * Drained pieces of one file that follow each other become one event, of at most so many
 * bytes: an event a piece would be a thousand a GiB. What overlaps others (a live file, a
 * pull, a commit) has an id.
 */
#include <inttypes.h>
#include <string.h>

#include "agent/state.h"
#include "common/futex.h"
#include "common/trace.h"

#define BURST (64ull << 20)
#define PAUSE_NS 2000000ull

/* A copy of the path, which its client may change meanwhile. */
static const char *path_of(const struct agent *agent, uint32_t file, char out[PORTUS_FILE_PATH + 1])
{
    memcpy(out, agent->control->file[file].path, PORTUS_FILE_PATH);
    out[PORTUS_FILE_PATH] = '\0';
    return out;
}

void agent_trace_flush(struct agent *agent)
{
    struct agent_burst *burst = &agent->burst;
    char path[PORTUS_FILE_PATH + 1];

    if (burst->bytes == 0)
        return;
    portus_trace(&(struct portus_event){PORTUS_TRACE_SPAN, "drain", "drain", .began = burst->began,
                                        .ended = burst->ended,
                                        .path = path_of(agent, burst->file, path)},
                 "\"bytes\":%" PRIu64 ",\"program\":%" PRIu32, burst->bytes,
                 atomic_load(&agent->control->session[burst->session].pid));
    burst->bytes = 0;
}

void agent_trace_drain(struct agent *agent, unsigned session, uint32_t file, uint64_t began,
                       uint64_t bytes)
{
    struct agent_burst *burst = &agent->burst;

    if (burst->bytes > 0 && (burst->file != file || burst->session != session ||
                             burst->bytes >= BURST || began - burst->ended > PAUSE_NS))
        agent_trace_flush(agent);
    if (burst->bytes == 0)
        *burst = (struct agent_burst){.began = began, .file = file, .session = session};
    burst->bytes += bytes;
    burst->ended = portus_now();
}

void agent_trace_live(struct agent *agent, uint32_t file, bool begins)
{
    const struct portus_file *entry = &agent->control->file[file];
    char path[PORTUS_FILE_PATH + 1];

    agent_trace_flush(agent);
    if (begins)
        agent->live_id[file] = portus_trace_id();
    if (agent->live_id[file] == 0)
        return; /* it engaged with a worker that is gone */
    portus_trace(&(struct portus_event){begins ? PORTUS_TRACE_BEGIN : PORTUS_TRACE_END, "live",
                                        "live", .id = agent->live_id[file],
                                        .path = path_of(agent, file, path)},
                 "\"drained\":%" PRIu64 ",\"error\":%" PRIu32, atomic_load(&entry->drained),
                 atomic_load(&entry->error) & ~PORTUS_ERROR_REPORTED);
    if (!begins)
        agent->live_id[file] = 0;
}

/* The beginning of something that is over; the event that ends it. */
static struct portus_event over(const char *what, uint64_t since)
{
    struct portus_event event = {PORTUS_TRACE_BEGIN, "store", what, .id = portus_trace_id(),
                                 .began = since};

    portus_trace(&event, "%s", "");
    event.phase = PORTUS_TRACE_END;
    event.began = 0;
    return event;
}

void agent_trace_pulled(struct agent *agent, unsigned session, uint64_t since, uint64_t records)
{
    struct portus_event end = over("pull", since);

    portus_trace(&end, "\"records\":%" PRIu64 ",\"program\":%" PRIu32, records,
                 atomic_load(&agent->control->session[session].pid));
}

void agent_trace_kept(const struct agent_keep *keep, uint64_t commit, int error)
{
    struct portus_event end = over("keep", keep->since);

    portus_trace(&end, "\"commit\":%" PRIu64 ",\"error\":%d", commit, -error);
}
