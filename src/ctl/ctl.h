/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ctl.h -- what the subcommands of portusctl share: exit statuses, messages, options
 *
 * A subcommand is one file and one line of the table in main.c.
 */
#ifndef PORTUS_CTL_H
#define PORTUS_CTL_H

#include <stdint.h>

#include "common/env.h"

/* Exit statuses; doctor has its own three. */
enum {
    CTL_OK = 0,
    CTL_FAILED = 1, /* what was asked for did not happen; one line says why */
    CTL_USAGE = 2,  /* the command line is wrong */
};

/* The subcommands: argv[0] is the subcommand's name. Each returns an exit status. */
int status_main(int argc, char **argv);
int wait_main(int argc, char **argv);
int off_main(int argc, char **argv);
int on_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int key_main(int argc, char **argv);
int version_main(int argc, char **argv);
int pool_main(int argc, char **argv);
int ls_main(int argc, char **argv);
int versions_main(int argc, char **argv);
int restore_main(int argc, char **argv);
int complete_main(int argc, char **argv);
int verify_main(int argc, char **argv);
int pin_main(int argc, char **argv);
int unpin_main(int argc, char **argv);
int rm_main(int argc, char **argv);
int gc_main(int argc, char **argv);
int scrub_main(int argc, char **argv);
int diff_main(int argc, char **argv);
int export_main(int argc, char **argv);
int import_main(int argc, char **argv);
int try_main(int argc, char **argv);
int top_main(int argc, char **argv);
int advise_main(int argc, char **argv);

/* portusctl pool badblocks, for pool.c. */
struct options;
int badblocks(const struct options *options, const char *path);

/* One line on standard error: "portusctl: " and the text. Leaves errno alone. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What options_parse() accepts; a bit each. */
enum {
    OPTION_JSON = 1,
    OPTION_JOB = 2,
    OPTION_TIMEOUT = 4,
    OPTION_STORE = 8,
    OPTION_VERSION = 16,
    OPTION_TO = 32,
    OPTION_FORCE = 64,
    OPTION_OBJECTS = 128,
    OPTION_PACE = 256,
    OPTION_BACKGROUND = 512,
    OPTION_LONG = 1024,
    OPTION_ALL = 2048,
    OPTION_TAR = 4096,
    OPTION_CLEAR = 8192,
    OPTION_REMOVE_DAMAGED = 16384,
    OPTION_LIST = 1 << 16,
    OPTION_EXTENTS = 1 << 17,
    OPTION_FROM = 1 << 18,
    OPTION_KILLS = 1 << 19,
    OPTION_ONCE = 1 << 21,
    OPTION_INTERVAL = 1 << 22,
    OPTION_ADVISE = 1 << 23,  /* --mtbf, --stall, --drain, --restart, --plain, --files */
    OPTION_COMMAND = 1 << 20, /* the first operand begins a command, with options of its own */
};

struct options {
    int json;             /* --json was given */
    const char *job;      /* --job NAME, otherwise PORTUS_JOB, otherwise "" */
    uint64_t timeout_ns;  /* --timeout SECONDS; UINT64_MAX: none */
    const char *store;    /* --store POOL, otherwise PORTUS_STORE, otherwise "" */
    const char *to;       /* --to DIR, or NULL */
    const char *from;     /* --from DIR, or NULL */
    uint64_t kills;       /* --kills N; UINT64_MAX: not given */
    uint64_t interval_ns; /* --interval SECONDS; 0: not given */
    uint64_t files;       /* --files N; 0: not given */
    double mtbf, stall, drain, restart, plain; /* seconds; -1: not given */
    int once;
    uint64_t version; /* --version N; 0: not given */
    uint64_t objects; /* --objects N; 0: not given */
    uint64_t pace;    /* --pace SIZE, bytes a second; 0: not given */
    int force;        /* --force, --background, ... were given */
    int background, long_list, all, tar, clear, remove_damaged, list, extents;
    const struct portus_env *env;
    int wrong_env; /* PORTUS_* variables with wrong values; each has been named */
};

/*
 * Reads the options of a subcommand that accepts those in `accepts`. Returns the
 * index of the first operand, or -1 after a message: exit with CTL_USAGE.
 */
int options_parse(struct options *options, int argc, char **argv, unsigned accepts);

#endif
