/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h -- the shared memory of an agent and its clients
 *
 * Two kinds of segment, both memfds that the agent creates:
 *
 *   the control segment   one for each agent, mapped by all clients: who is
 *                         there, what is live, how far the drain is
 *   a ring                one for each session, mapped by that client and the
 *                         agent only: its log's records, then its data
 *
 * The log. Only the client appends, only the agent (or, after the agent's
 * death, the client itself) replays. A record is first reserved by advancing
 * `head`, then filled, then made ready by storing its stamp; so several threads
 * copy at once while the order stays the order of reservation. A record that
 * its client did not make ready before it died never was a finished write.
 *
 * Stopping. `head` and each file's `last` carry a flag in their lowest bit.
 * Both change by compare-and-swap only, so whoever sets the flag knows for
 * certain which record is the last. A client whose swap of `last` fails makes
 * the record that it had reserved an empty one, waits until the drain is
 * through, and writes plainly.
 *
 * Claims. A store may pull records, too, while they are in the ring. So a record's
 * place and bytes are free only below both `tail` and `claimed`. The agent sets a claim
 * at a tail that it has published before, and a client reads `tail` first: it frees
 * nothing that was claimed meanwhile. A store that is too slow loses its claim.
 *
 * Nothing here is trusted: the agent checks each number that it reads before
 * it uses it, and a client never takes a pointer or a size from it unchecked.
 */
#ifndef PORTUS_RING_H
#define PORTUS_RING_H

#include <stdatomic.h>
#include <stdint.h>

#include "portus/portus.h"
#include "portus/reason.h"

#define PORTUS_CONTROL_MAGIC 0x314c525453555450ull /* "PTUSTRL1" */
#define PORTUS_CONTROL_VERSION 5u

/* The lowest bit of portus_session.head and portus_file.last. */
#define PORTUS_STOPPED 1ull

/* Why an agent captures nothing new: portus_control.passive. */
enum portus_passive {
    PORTUS_CAPTURING = 0,
    PORTUS_PASSIVE_OFF = 1,  /* portusctl off */
    PORTUS_PASSIVE_TERM = 2, /* the agent was told to end */
};

enum portus_session_state {
    PORTUS_SESSION_FREE = 0,
    PORTUS_SESSION_ACTIVE = 1, /* its client lives */
    PORTUS_SESSION_DYING = 2,  /* its client is gone; the agent replays the rest */
};

/* A client's place in the control segment: 128 bytes, so that no two share a cache line. */
struct portus_session {
    _Atomic uint32_t state;      /* enum portus_session_state; written by the agent */
    _Atomic uint32_t pid;        /* of the client */
    _Atomic uint64_t head;       /* (records reserved so far << 1) | PORTUS_STOPPED */
    _Atomic uint64_t tail;       /* records replayed so far */
    _Atomic uint64_t captured;   /* bytes reserved so far; written by the client */
    _Atomic uint64_t drained;    /* bytes replayed so far; written by the agent */
    _Atomic uint64_t ring_bytes; /* data bytes that may be used; written by the agent */
    _Atomic uint64_t ring_goal;  /* data bytes that the agent is populating for it */
    _Atomic uint32_t serial;     /* counts the clients that had this place */
    uint32_t pad;
    _Atomic uint64_t wanted;  /* bytes this save would have needed; set by the client */
    _Atomic uint64_t held;    /* pieces filled that have no record yet, or that memory shows */
    _Atomic uint64_t claimed; /* a store still pulls records from here on; the agent's */
    _Atomic uint32_t starved; /* set by the client: what is claimed and replayed holds it up */
    _Atomic uint32_t unpin;   /* set by the agent: its memory is wanted back */
    _Atomic uint64_t pinned;  /* bytes of data that a device may write to: do not shrink the ring */
    _Atomic uint64_t silent;  /* its drain waits for the file system of that device, for seconds by
                                 now, and that is a shared one; 0: not; the agent's */
    uint64_t reserved[2];
};

#define PORTUS_UNCLAIMED UINT64_MAX

enum portus_file_state {
    PORTUS_FILE_FREE = 0,
    PORTUS_FILE_CLAIMED = 1, /* a client fills it in; the agent has no descriptor yet */
    PORTUS_FILE_LIVE = 2,    /* the agent holds its descriptor */
    PORTUS_FILE_TRIMMED = 3, /* drained; surplus blocks given back, lease about to go */
    PORTUS_FILE_DONE = 4,    /* an ordinary file again; the client frees the place */
};

#define PORTUS_FILE_PATH 168

/* Directories of a file that are known: a pointer file is written so far above its shards. */
#define PORTUS_ANCESTORS 4

/* Of portus_file.error: a call of the program has returned it. */
#define PORTUS_ERROR_REPORTED 0x80000000u

/* Of portus_file.closed: and its close does not wait for the drain. */
#define PORTUS_CLOSED_EARLY 2u

/* One engaged file: 320 bytes. Written by its client where nothing else is said. */
struct portus_file {
    _Atomic uint32_t owner;        /* session number + 1; 0: free */
    _Atomic uint32_t state;        /* enum portus_file_state; from LIVE on the agent's */
    _Atomic uint64_t last;         /* (sequence after its last record << 1) | PORTUS_STOPPED */
    _Atomic uint64_t size;         /* as the program sees it, bytes */
    _Atomic uint64_t reserved_end; /* blocks are reserved up to here, bytes */
    uint64_t device;
    uint64_t inode;
    uint64_t directory[PORTUS_ANCESTORS]; /* inodes: its own, the one above, ...; 0: unknown */
    _Atomic uint64_t captured;            /* bytes */
    _Atomic uint64_t drained;             /* bytes; the agent's */
    uint64_t since_ns;                    /* CLOCK_MONOTONIC of engagement */
    _Atomic uint32_t closed;              /* the program has closed it: 1, or ..._EARLY */
    _Atomic uint32_t error;               /* errno of a failed replay; the agent's; sticky */
    _Atomic uint32_t leaseless;           /* no lease was taken (PORTUS_SHARED) */
    _Atomic uint32_t quiet;    /* the program does not write it: surplus blocks may be trimmed */
    _Atomic uint32_t hurried;  /* will be waited for until it is on the disk: begin at once */
    _Atomic uint32_t replaces; /* it was emptied when it was opened: as above, once it is whole */
    _Atomic uint32_t aside;   /* it may have been changed other than by the log: a store reads it */
    _Atomic uint32_t sealing; /* its program waits until it is committed */
    _Atomic uint64_t written; /* when the program wrote it last, ns since 1970; 0: not known */
    _Atomic uint64_t kept;    /* the store has committed its records below; the agent's */
    char path[PORTUS_FILE_PATH]; /* for people; the end of a longer path; NUL-terminated */
};

#define PORTUS_ERROR_TEXT 240

struct portus_control {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;          /* sizeof(struct portus_control) of who made it */
    char release[32];        /* PORTUS_VERSION of the agent */
    _Atomic uint32_t keeper; /* process ids */
    _Atomic uint32_t worker;
    _Atomic uint32_t passive;  /* enum portus_passive */
    _Atomic uint32_t restarts; /* workers that the keeper had to replace */
    _Atomic uint32_t beat;     /* the worker advances it at each turn of its loop */
    _Atomic uint32_t sleeping; /* 1: the worker waits; who appends clears it and wakes it */
    _Atomic uint32_t progress; /* futex: advanced after a tail or a file's state moved */
    _Atomic uint32_t progress_waiters;
    _Atomic uint32_t finished;        /* futex: advanced after a file is done or a ring has grown */
    _Atomic uint32_t live;            /* files that are CLAIMED, LIVE or TRIMMED, about */
    _Atomic uint64_t undrained_limit; /* bytes of all sessions that may wait for the drain */
    _Atomic uint64_t drain_rate;      /* bytes per second, lately; 0: not known yet */
    _Atomic uint64_t drained_files;
    _Atomic uint64_t drained_bytes;
    uint64_t started_ns;      /* CLOCK_MONOTONIC */
    _Atomic uint32_t errors;  /* counts the texts below that were written */
    _Atomic uint32_t store;   /* PORTUS_WELCOME_*: what it is, while it is there; 0: none */
    _Atomic uint32_t keeping; /* files that are held for the store: their file systems are busy */
    char last_error[PORTUS_ERROR_TEXT]; /* for people */
    struct portus_session session[PORTUS_SESSIONS];
    struct portus_file file[PORTUS_FILES];
    /* Counted by clients, for metrics: calls that waited for the drain, and how
     * long captured writes took; saves that were not
     * captured, by reason. */
    _Atomic uint64_t waits, waited_ns, capture_ns;
    _Atomic uint64_t refused[PORTUS_REASON_COUNT];
};

/* One write of at most PORTUS_CHUNK bytes. */
struct portus_record {
    _Atomic uint64_t stamp; /* its sequence + 1 as soon as the bytes are there */
    uint64_t offset;        /* in the file, bytes */
    uint64_t data;          /* in the ring's data, bytes */
    uint32_t length;        /* bytes; 0: nothing, its file was stopped meanwhile */
    uint32_t file;          /* index into portus_control.file */
};

/*
 * A ring is laid out as
 *     struct portus_record record[PORTUS_RECORDS];    sequence s: [s % PORTUS_RECORDS]
 *     uint8_t data[];                                 at PORTUS_RING_DATA
 */
#define PORTUS_RING_DATA ((uint64_t)PORTUS_RECORDS * sizeof(struct portus_record))

_Static_assert(sizeof(struct portus_session) == 128, "portus_session");
_Static_assert(sizeof(struct portus_record) == 32, "portus_record");
_Static_assert(sizeof(struct portus_file) == 320, "portus_file");
_Static_assert((PORTUS_RECORDS & (PORTUS_RECORDS - 1)) == 0, "a power of two");
_Static_assert(PORTUS_RING_DATA % 4096 == 0, "data starts on a page");

#endif
