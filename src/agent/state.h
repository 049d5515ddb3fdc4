/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h -- what keeper and worker share, so that a killed worker is resumed
 *
 * The keeper makes it in shared memory before it starts the first worker; the two
 * also share their descriptor table. A worker that takes over rebuilds its
 * mappings from the descriptors named here, closes all others, and goes on. So
 * each entry is written last when something is set up, and first when it is
 * taken down: a descriptor that is not named here yet is as good as closed.
 */
#ifndef PORTUS_AGENT_STATE_H
#define PORTUS_AGENT_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/env.h"
#include "common/futex.h"
#include "portus/ring.h"

#define AGENT_PEERS 4096
#define AGENT_LOOKERS 3584 /* more of those would leave no place for who saves */
#define AGENT_KEEPS 256

/* A connection. All descriptors here are 0 when there is none: 0 is /dev/null. */
struct agent_peer {
    int socket;
    int pidfd; /* of a client; tells dead from gone */
    uint32_t pid;
    uint32_t role;    /* enum portus_role; 0: no HELLO yet */
    uint32_t session; /* of a client: its number + 1; 0: none */
    bool welcomed;
    bool deaf; /* broke the protocol: nothing it says is heard any more */
};

struct agent_session {
    int ring;            /* memfd */
    int pidfd;           /* outlives the connection: its client may still be copying */
    uint64_t tail;       /* the true one; the one in shared memory is for clients */
    uint64_t ring_map;   /* bytes that are mapped */
    uint64_t ring_bytes; /* data bytes that may be used; the one in shared memory is for clients */
    uint64_t stalled;    /* when a record was first found not ready, ns; for the log */
    uint32_t lines;      /* that the log has of its client */
    bool liar;           /* nothing that it writes into its log counts any more */
};

/* A whole file on its way to the store; state: see store.c, 0: none. */
struct agent_keep {
    int fd; /* O_PATH, or open for reading and with a lease */
    uint32_t id, state;
    uint64_t since;     /* it is in this state, ns */
    uint64_t directory; /* inode */
    uint64_t device, inode;
    bool kept;     /* it has committed it, as it was when it was drained */
    bool again;    /* a portusd ended before it had answered for it */
    bool drafted;  /* the store has a draft of it, under the same id */
    uint32_t ring; /* that it is pulled from; 0: all is, or nothing */
    uint64_t last; /* sequence after its last record */
    uint64_t size; /* with a draft: what the file was when it was drained */
    struct timespec mtime;
};

/* What the store pulls of a session's log; see pull.c. */
struct agent_pull {
    uint32_t ring;  /* the store's number for it; 0: nothing is pulled */
    bool asked;     /* it has not answered yet */
    uint64_t upto;  /* the store has been told of records up to here */
    uint64_t since; /* then, ns */
};

/* What metrics tell of a file system, and cannot be found again. */
#define AGENT_MOUNTS 16
struct agent_mount {
    uint64_t device;
    uint64_t bytes, files, errors; /* drained; that could not be */
    uint64_t lag_ns;               /* of these files, from their last write until whole */
    char path[256];
};

struct agent_state {
    int listener;
    int control_fd;
    int doorbell;      /* eventfd: a client has something */
    int breaks;        /* eventfd: the keeper got a lease signal */
    int keeper;        /* pid */
    int killed;        /* the worker before, pid; 0: there was none */
    int killed_by;     /* signal */
    uint32_t welcomed; /* clients so far */
    struct portus_env env;
    struct agent_peer peer[AGENT_PEERS];
    uint32_t peers_end; /* no peer is at or above it */
    struct agent_session session[PORTUS_SESSIONS];
    int file[PORTUS_FILES]; /* descriptors of engaged files; 0: none */
    bool leased[PORTUS_FILES];
    uint32_t owner[PORTUS_FILES]; /* session number + 1 that sent it */
    int store;                    /* connection to portusd, or to a carrier; 0: none */
    bool store_ready;             /* it has been welcomed */
    uint32_t keeps, keep_ids, ring_ids;
    struct agent_pull pull[PORTUS_SESSIONS];
    uint32_t draft[PORTUS_FILES];      /* the store's number for what it pulls of it; 0: nothing */
    uint64_t sealed[PORTUS_FILES];     /* sequence up to which it was told to commit that */
    uint64_t seal_since[PORTUS_FILES]; /* it has not answered, ns; 0: it has */
    struct agent_keep keep[AGENT_KEEPS];
    struct agent_mount mount[AGENT_MOUNTS]; /* the last one stands for all others */
    uint32_t mounts;
    uint64_t kept, not_kept; /* by the store */
};

/* For the timeline: pieces that were drained one after another, without a pause, of one file. */
struct agent_burst {
    uint64_t began, ended; /* ns */
    uint64_t bytes;        /* 0: none */
    uint32_t file, session;
};

/* A thread that can run the loop. Numbers and bools: with the loop's lock; see calls.c. */
#define AGENT_THREADS 16
struct agent_thread {
    struct agent *agent; /* NULL: there is none of this number yet */
    unsigned number;
    bool parked; /* it may be given the loop */
    bool away;   /* in a call, and another thread has the loop */
    bool told;
    _Atomic uint64_t began; /* its call into a file system, ns; 0: it is in none */
    uint64_t device;
    const char *what; /* for people; may be in shared memory */
    char path[PORTUS_FILE_PATH];
    _Atomic uint32_t go; /* futex: it has been given the loop */
};

#define AGENT_SLOW 16
struct agent_slow {
    uint64_t device, until; /* ns */
};

struct agent_calls {
    struct portus_lock lock;
    _Atomic unsigned owner;     /* number of the thread that runs the loop */
    _Atomic uint32_t returning; /* threads that want the lock, to finish what they began */
    _Atomic uint32_t dozes;     /* the watchdog sleeps until a call begins */
    unsigned away;
    bool watched;
    struct agent_thread thread[AGENT_THREADS];
    struct agent_slow slow[AGENT_SLOW];
};

/* A descriptor of a client's that nothing is done with but to close it. */
#define AGENT_DISCARDS 256
struct agent_discard {
    int fd;
    uint64_t device;
};

/* When the store may pull a session's records; see pull.c. */
struct agent_pace {
    uint64_t head;  /* that was seen last */
    uint64_t base;  /* bytes captured when nothing was in the ring */
    uint64_t since; /* records wait, ns; 0: none */
    uint64_t small; /* a ring of so many bytes is too small for a save */
};

/* The worker's own: mappings and what can be found again. */
struct agent {
    struct agent_state *state;
    struct portus_control *control;
    uint8_t *ring[PORTUS_SESSIONS]; /* mapped, or NULL */
    uint64_t begun[PORTUS_FILES];   /* of each file, how far the disk has been told to begin */
    uint64_t device[PORTUS_FILES];  /* of each file that is engaged */
    struct agent_calls calls;
    uint32_t calling[PORTUS_SESSIONS]; /* calls for its files that are under way */
    uint32_t
        replaying[PORTUS_SESSIONS]; /* the file + 1 that one of its records is being written to */
    bool held[PORTUS_SESSIONS];     /* its next record waits for a call to return */
    struct agent_discard discard[AGENT_DISCARDS];
    unsigned discarded;
    uint64_t idle_since;          /* nobody connected, nothing live; 0: busy */
    uint64_t look;                /* at the memory, then, ns */
    uint64_t busy_ns, busy_bytes; /* of the drain, for its rate */
    uint64_t store_since;         /* it is being started or asked, ns; 0: not */
    unsigned store_first;         /* of several: which is tried first */
    uint64_t store_looked, store_started, store_refused_until; /* ns */
    struct agent_pace pace[PORTUS_SESSIONS];
    uint64_t appended;    /* to any log, ns */
    uint64_t store_heard; /* the last answer, ns */
    uint64_t store_asked; /* since then, whether it is alive, ns; 0: not */
    bool store_full, store_behind;
    bool store_ends;       /* takes no more files */
    bool store_socketless; /* there is no socket for it, and a line says so */
    bool store_wanted;     /* a file has engaged, and it is not there */
    bool stamping;         /* a drained file waits for the clock: see pull.c */
    bool told;             /* to end, and has said what is left */
    bool stopping;         /* nothing new is captured: all files were stopped */
    struct agent_burst burst;
    uint64_t live_id[PORTUS_FILES]; /* for the timeline */
    uint64_t measured;              /* metrics were written, ns */
};

/* worker.c: what a worker does until the agent is no longer needed. */
void agent_work(struct agent_state *state, struct portus_control *control)
    __attribute__((noreturn));
void agent_turns(struct agent *agent); /* the loop, as long as it is this thread's */
void agent_wake(struct agent *agent);  /* from its sleep */

/* Logs an error and shows it in portusctl status. */
void agent_error(struct agent *agent, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Ends the agent, as something that it needs cannot be had: its connections hang up, and
 * its clients write the rest themselves. Better than to go on without hearing them.
 */
void agent_quit(struct agent *agent, const char *what) __attribute__((noreturn));

/* Another description of what is open at fd, or (O_PATH) its name; -1 and errno. */
int agent_reopen(int fd, int flags);

/* Wakes clients that wait for a tail or a file's state. */
void agent_progress(struct agent *agent);

/*
 * Whether the log may have one more line that a client can bring about, of so many; the
 * last one says that it is the last.
 */
bool agent_may_say(struct agent *agent, unsigned session);

/* calls.c: calls that may never return */
void agent_loop(struct agent *agent) __attribute__((noreturn));
void agent_calls_turn(struct agent *agent); /* lets those have the loop's lock who return */
/*
 * Around a call into the file system of that device; what: a name of at most
 * PORTUS_FILE_PATH bytes. Others may run the loop meanwhile.
 */
void agent_call(struct agent *agent, uint64_t device, const char *what);
void agent_called(struct agent *agent);
/* Whether the loop is another thread's now: this one finishes what it began, and returns. */
bool agent_lost(const struct agent *agent);
bool agent_call_away(const struct agent *agent, uint64_t device);   /* nothing can be begun there */
bool agent_call_silent(const struct agent *agent, uint64_t device); /* for seconds by now */
uint64_t agent_device(int fd); /* of its file system, without asking that; 0: not known */
/* Closes it in a turn to come. */
void agent_discard(struct agent *agent, int fd);
bool agent_discard_turn(struct agent *agent); /* one; whether there was one that can be closed */

/* peer.c: connections */
bool agent_peers_turn(struct agent *agent, int milliseconds); /* whether anything came */
void agent_peers_resume(struct agent *agent);
unsigned agent_peers_count(const struct agent *agent);

void agent_peers_forget(struct agent *agent, unsigned session); /* a deaf one's has ended */
void agent_peers_deafen(struct agent *agent, unsigned session); /* nothing more is heard of it */

/* ring.c: sessions and their memory */
int agent_session_open(struct agent *agent, const struct agent_peer *peer, uint64_t wanted);
void agent_session_leave(struct agent *agent, unsigned number); /* its client hung up */
bool agent_session_end(struct agent *agent, unsigned number);   /* if all is drained; whether */
int agent_ring_map(struct agent *agent, unsigned number);
bool agent_rings_grow(struct agent *agent); /* one step; whether there is more to do */
/* Gives memory back when it is short. In so many ns it is to be called again. */
uint64_t agent_rings_relieve(struct agent *agent);

/* drain.c: replays at most one piece of a session; whether it did */
bool agent_drain(struct agent *agent, unsigned number);
/* Whether all of the session's log is replayed. */
bool agent_drained(const struct agent *agent, unsigned number);
/* Whether the session's client has died: then a record that is not ready never will be. */
bool agent_client_dead(const struct agent_session *session);

/* timeline.c: what PORTUS_TRACE shows of the agent; each is only called where that is on */
void agent_trace_drain(struct agent *agent, unsigned session, uint32_t file, uint64_t began,
                       uint64_t bytes);
void agent_trace_flush(struct agent *agent); /* what is not written yet, before others see less */
void agent_trace_live(struct agent *agent, uint32_t file, bool begins);
void agent_trace_pulled(struct agent *agent, unsigned session, uint64_t since, uint64_t records);
void agent_trace_kept(const struct agent_keep *keep, uint64_t commit, int error);

/* metrics.c: what PORTUS_METRICS tells of the agent; each does nothing where that is off */
void agent_metrics_turn(struct agent *agent, bool ends);
void agent_metrics_drained(struct agent *agent, unsigned file, uint64_t bytes, int error);
void agent_metrics_whole(struct agent *agent, unsigned file);

/* lease.c: engaged files */
/* Whether fd is taken: 1, or 0: it is of no use any more; or a negative errno: it never was. */
int agent_file_engage(struct agent *agent, unsigned session, uint32_t number, uint64_t inode,
                      int fd);
void agent_files_resume(struct agent *agent); /* after another worker */
void agent_files_broken(struct agent *agent); /* stops those that somebody waits for */
void agent_files_stop(struct agent *agent, unsigned session); /* session + 1, or 0: all */
bool agent_files_finish(struct agent *agent); /* those that are stopped and drained */
unsigned agent_files_count(const struct agent *agent, unsigned session);

/* pull.c: what the store copies out of rings, meanwhile */
void agent_pull_begin(struct agent *agent, unsigned number); /* a file has engaged */
bool agent_pull_turn(struct agent *agent);                   /* whether there is something to do */
void agent_pull_heard(struct agent *agent, uint32_t ring, uint64_t upto);
/* Whether the store has pulled all of a session's log. */
bool agent_pull_through(const struct agent *agent, unsigned session);
void agent_pull_revoke(struct agent *agent, unsigned session); /* what it has not pulled yet */
void agent_pull_end(struct agent *agent, unsigned session);    /* no record comes any more */
void agent_pull_forget(struct agent *agent);                   /* all of it */
bool agent_pull_has(const struct agent *agent, const struct agent_keep *keep); /* its last byte */
/* Whether a drained file may go its way now; what it was then is noted in keep, if it is pulled. */
bool agent_pull_stamp(struct agent *agent, unsigned number, int fd, struct agent_keep *keep);
void agent_pull_drop(struct agent *agent, uint32_t id);              /* a draft is of no use */
void agent_pull_sealed(struct agent *agent, uint32_t id, int error); /* it was committed, or not */

/* dial.c: a connection to the store, which is not welcomed yet; or gives it up */
void agent_store_dial(struct agent *agent);
bool agent_store_late(const struct agent *agent); /* it has not been welcomed in time */
bool agent_store_shared(const struct agent *agent);
bool agent_store_far(const struct agent *agent);

/* store.c: the way of whole files into the store */
void agent_store_give_up(struct agent *agent, const char *why); /* for a while; says so */
bool agent_store_configured(const struct agent *agent);
void agent_store_silent(struct agent *agent); /* it does not answer: goes on without */
/* One is drained; what is known of it, or NULL. */
void agent_store_take(struct agent *agent, unsigned number, int fd, const struct agent_keep *known);
void agent_store_renamed(struct agent *agent, int fd); /* takes fd */
void agent_store_resume(struct agent *agent);          /* after another worker */
void agent_store_end(struct agent *agent);             /* lets all go */
void agent_store_broken(struct agent *agent); /* lets those go that somebody wants to write */
bool agent_store_turn(struct agent *agent);   /* whether there is something under way */

#endif
