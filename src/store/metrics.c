/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics.c -- what portusd tells of itself, by HTTP on loopback
 *
 * Nobody is asked who he is: so it tells sums over all users, and no path, user or job. The
 * server is libmicrohttpd, run by our own loop: no thread reads what another changes.
 */
#include "store/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "portus/portus.h"

#define CONNECTIONS 16
#define PATIENCE 10 /* s */
#define ROOM 16384

static struct {
    struct MHD_Daemon *server;
    struct store *store;
    uint64_t commits, bytes, refused, errors;
} metrics;

void metrics_taken(int error, uint64_t bytes)
{
    if (error == 0) {
        metrics.commits++;
        metrics.bytes += bytes;
    } else if (error == -ENOSPC) {
        metrics.refused++;
    } else if (error != -ESTALE && error != -ENOENT && error != -ECANCELED) {
        metrics.errors++;
    }
}

static double scrubbed(unsigned what)
{
    uint64_t answer = 0;

    store_tend_hear(metrics.store, PORTUS_OP_STORE_SCRUBBED, 0, what, &answer);
    return (double)answer;
}

static void put_all(struct portus_metrics *out)
{
    struct store *store = metrics.store;
    struct pool_state state;

    pool_look(store->pool, &state);
    portus_metrics_one(out, "portusd_up", "gauge", "1.", 1);
    portus_metrics_one(out, "portusd_pool_bytes", "gauge", "Size of the pool.", (double)state.size);
    portus_metrics_one(out, "portusd_pool_free_bytes", "gauge", "What is free of it.",
                       (double)state.free);
    portus_metrics_one(out, "portusd_pool_durable", "gauge",
                       "1: in persistent memory; 0: in a file.", state.durable);
    portus_metrics_one(out, "portusd_versions", "gauge", "Versions in the pool.",
                       (double)(state.slots - state.slots_free));
    portus_metrics_one(out, "portusd_connections", "gauge", "Agents and others, connected.",
                       store_peers(store));
    portus_metrics_one(out, "portusd_files_waiting", "gauge", "Files that wait to be copied.",
                       (double)(store->queued - store->taken));
    portus_metrics_one(out, "portusd_commits_total", "counter", "Versions that were committed.",
                       (double)metrics.commits);
    portus_metrics_one(out, "portusd_committed_bytes_total", "counter", "Bytes of them.",
                       (double)metrics.bytes);
    portus_metrics_one(out, "portusd_no_room_total", "counter",
                       "Files that were not kept, as there was no room.", (double)metrics.refused);
    portus_metrics_one(out, "portusd_errors_total", "counter",
                       "Files that were not kept because of an error.", (double)metrics.errors);
    portus_metrics_one(out, "portusd_scrub_passes_total", "counter",
                       "Times that all of the pool was read and checked.",
                       scrubbed(PORTUS_SCRUB_PASSES));
    portus_metrics_one(out, "portusd_scrub_repaired", "gauge",
                       "Versions that this pass, or the last one, has repaired.",
                       scrubbed(PORTUS_SCRUB_REPAIRED));
    portus_metrics_one(out, "portusd_verify_failures", "gauge",
                       "Versions that are damaged, as this pass, or the last one, has found.",
                       scrubbed(PORTUS_SCRUB_DAMAGED));
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_NO;

    if (response == NULL)
        return MHD_NO;
    if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES)
        result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result asked(void *nothing, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *data,
                             size_t *length, void **request)
{
    static char text[ROOM];
    static int seen;
    struct portus_metrics out = {.text = text, .room = sizeof(text), .labels = ""};

    /* Before what comes with it, which is not wanted. */
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "only GET\n");
    if (*request == NULL) { /* its headers are there, no more */
        *request = &seen;
        return MHD_YES;
    }
    *length = 0;
    if (strcmp(url, "/metrics") != 0)
        return answer(connection, MHD_HTTP_NOT_FOUND, "text/plain", "see /metrics\n");
    put_all(&out);
    return answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text);
}

int metrics_begin(struct store *store, unsigned port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };

    metrics.store = store;
    errno = 0;
    metrics.server = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, asked, NULL, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, PATIENCE,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_END);
    if (metrics.server == NULL)
        return errno != 0 ? -errno : -EIO;
    return 0;
}

int metrics_descriptor(void)
{
    const union MHD_DaemonInfo *info =
        metrics.server != NULL ? MHD_get_daemon_info(metrics.server, MHD_DAEMON_INFO_EPOLL_FD)
                               : NULL;

    return info != NULL ? info->epoll_fd : -1;
}

void metrics_turn(void)
{
    if (metrics.server != NULL)
        MHD_run(metrics.server);
}

void metrics_end(void)
{
    if (metrics.server != NULL)
        MHD_stop_daemon(metrics.server);
    metrics.server = NULL;
}
