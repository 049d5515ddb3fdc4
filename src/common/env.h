/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env.h -- the configuration: environment variables, one table (env.def)
 *
 * The shim, the agent and portusctl read the same table; README and man page
 * are checked against it.
 */
#ifndef PORTUS_ENV_H
#define PORTUS_ENV_H

#include <stdbool.h>
#include <stdint.h>

enum portus_mode { PORTUS_AUTO, PORTUS_REQUIRE, PORTUS_REPORT, PORTUS_OFF };
enum portus_close { PORTUS_CLOSE_CAPTURED, PORTUS_CLOSE_DRAINED, PORTUS_CLOSE_DURABLE };
enum portus_order { PORTUS_ORDER_STRICT, PORTUS_ORDER_RELAXED };
enum portus_restore { PORTUS_RESTORE_OFF, PORTUS_RESTORE_AUTO, PORTUS_RESTORE_READ };
enum portus_promise { PORTUS_PROMISE_AUTO, PORTUS_PROMISE_OFF };
enum portus_crc { PORTUS_CRC_OFFLOAD, PORTUS_CRC_EXACT };

#define PORTUS_ENV_TEXT 1024

struct portus_env {
    int mode;                       /* PORTUS: enum portus_mode */
    int close;                      /* PORTUS_CLOSE: enum portus_close */
    int order;                      /* PORTUS_ORDER: enum portus_order */
    int crc;                        /* PORTUS_CRC: enum portus_crc */
    int promise;                    /* PORTUS_PROMISE: enum portus_promise */
    int summary;                    /* PORTUS_SUMMARY: 0 or 1 */
    int shared;                     /* PORTUS_SHARED: 0, 1 or 2 */
    uint64_t ring_size;             /* PORTUS_RING_SIZE, bytes; 0: as needed */
    uint64_t min_write;             /* PORTUS_MIN_WRITE, bytes */
    uint64_t sample;                /* PORTUS_SAMPLE: every Nth save is left plain; 0: none */
    int log_level;                  /* PORTUS_LOG: enum portus_level ... */
    char log_file[PORTUS_ENV_TEXT]; /* ... and the part behind its colon, or "" */
    bool log_json;                  /* ... and whether ",json" is behind the word */
    char metrics[PORTUS_ENV_TEXT];  /* PORTUS_METRICS: a file, a directory, or "" */
    char trace[PORTUS_ENV_TEXT];    /* PORTUS_TRACE: a file, or "" */
    char match[PORTUS_ENV_TEXT];    /* PORTUS_MATCH: colon-separated globs */
    char exclude[PORTUS_ENV_TEXT];  /* PORTUS_EXCLUDE: the same */
    char job[PORTUS_ENV_TEXT];      /* PORTUS_JOB: names the agent instead of the cgroup */
    char agent[PORTUS_ENV_TEXT];    /* PORTUS_AGENT: its path, or "": beside the shim */
    char store[PORTUS_ENV_TEXT];    /* PORTUS_STORE: path of a pool, unix:PATH, tcp://HOST, or "" */
    char key[PORTUS_ENV_TEXT];      /* PORTUS_KEY: a file, or "" */
    char rdma_devices[PORTUS_ENV_TEXT]; /* PORTUS_RDMA_DEV: names, or "" */
    int restore;                        /* PORTUS_RESTORE: enum portus_restore */
    uint64_t keep;                      /* PORTUS_KEEP: versions of a file */
    uint64_t scrub;                     /* PORTUS_SCRUB, bytes a second; 0: not */
};

/* The table, for documents: a line for each variable of env.def. */
extern const struct portus_env_variable {
    const char *name, *values, *fallback, *doc;
} portus_env_variables[];
extern const unsigned portus_env_variable_count;

/*
 * Fills *env from the environment. A wrong value is named in one line with the
 * right ones, and the default is used; so is a variable PORTUS_* that the table
 * does not know (warned of once, ignored). Allocates nothing.
 * Returns the number of wrong values.
 */
int portus_env_load(struct portus_env *env);

/*
 * Whether one of the colon-separated globs matches path: a glob with a slash is
 * compared with the whole path, one without with its last component.
 */
bool portus_env_match(const char *globs, const char *path);

#endif
