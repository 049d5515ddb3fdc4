/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto.h -- the messages between an agent and its clients
 *
 * A SOCK_SEQPACKET unix socket in the abstract namespace, so that nothing is
 * left in a file system; its name is made by src/common/name.c. One message is
 * one packet of fixed size, little-endian as all of Portus. File descriptors
 * travel beside it (SCM_RIGHTS).
 *
 *   client                         agent
 *   HELLO            ->
 *                    <-            WELCOME + control, ring, doorbell
 *   ENGAGE + the file ->           (no answer: an answer could hang)
 *   RENAMED + the file ->          (only where there is a store)
 *
 * A looker (role PORTUS_ROLE_LOOK: a process that only has to wait for others,
 * and portusctl) gets the control segment and the doorbell, and no ring.
 *
 * The peer's uid comes from the socket (SO_PEERCRED), never from a message.
 *
 * A store (portusd) is spoken to in the same form. What a file is, how large, whose
 * and where, it asks the descriptor, not the peer; and that nobody has changed the
 * file while it was copied, the read lease that the agent has taken on it.
 *
 *   agent or portusctl             store
 *   HELLO            ->
 *                    <-            WELCOME
 *   STORE_FILE + the file ->
 *                    <-            STORE_DONE, when it is committed or cannot be
 *   STORE_RENAMED + what was renamed ->
 *                    <-            STORE_DONE, when it is done with, whatever came of it
 *   STORE_PIN, STORE_REMOVE, STORE_ROOM, STORE_SCRUB, STORE_SCRUBBED, STORE_CLEAN,
 *   STORE_SIZE, STORE_ALIVE ->
 *                    <-            STORE_DONE
 *   STORE_VIEW       ->
 *                    <-            STORE_DONE
 *   STORE_READ       ->
 *                    <-            STORE_BYTES, until all are there or one has an error
 *   STORE_IMPORT + what it is ->
 *                    <-            STORE_DONE
 *   STORE_BYTES      ->            any number of them; what is wrong with one says the next line
 *   STORE_KEEP       ->
 *                    <-            STORE_DONE
 *
 * A store that is there when a file engages pulls its bytes from the ring, meanwhile:
 *
 *   STORE_RING + the ring ->
 *   STORE_DRAFT + the file, O_PATH ->
 *   STORE_PULL       ->
 *                    <-            STORE_PULLED, when it has all that it was told of
 *   STORE_SEAL       ->                                 (if somebody waits for the commit)
 *                    <-            STORE_DONE
 *   STORE_FILE (PORTUS_STORE_PULLED) + the file ->      as above; only the rest is read from it
 *
 * An agent refuses what is a store's, and a store what is an agent's.
 */
#ifndef PORTUS_PROTO_H
#define PORTUS_PROTO_H

#include <stdint.h>

#define PORTUS_PROTO_MAGIC 0x50545553u /* "SUTP" */
#define PORTUS_PROTO_VERSION 1u

enum portus_op {
    PORTUS_OP_HELLO = 1,
    PORTUS_OP_WELCOME = 2,
    PORTUS_OP_ENGAGE = 3,
    PORTUS_OP_OFF = 4, /* from portusctl: drain, release all files, capture nothing new */
    PORTUS_OP_ON = 5,
    PORTUS_OP_RENAMED = 6, /* with what was renamed, O_PATH: the store keeps it by its new name */
    PORTUS_OP_STORE_FILE = 64,    /* a file that is whole */
    PORTUS_OP_STORE_DONE = 65,    /* the answer to each of the others */
    PORTUS_OP_STORE_PIN = 66,     /* keep a version, or (PORTUS_STORE_UNPIN) no longer */
    PORTUS_OP_STORE_REMOVE = 67,  /* remove a version */
    PORTUS_OP_STORE_ROOM = 68,    /* remove old versions until so many bytes are free */
    PORTUS_OP_STORE_RENAMED = 69, /* as PORTUS_OP_RENAMED; answered when it is done with */
    PORTUS_OP_STORE_CANCEL = 70,  /* a file of before: let go of it; answered for that file */
    PORTUS_OP_STORE_RING = 71,    /* a session's ring; without one: it is of no use any more */
    PORTUS_OP_STORE_DRAFT = 72,   /* a file whose records are to be pulled; without one: are not */
    PORTUS_OP_STORE_PULL = 73,    /* records that are ready */
    PORTUS_OP_STORE_PULLED = 74,
    PORTUS_OP_STORE_DROP = 75, /* a draft is of no use any more */
    PORTUS_OP_STORE_SEAL = 76, /* commit a draft; -EAGAIN: it does not hold all of the file */
    PORTUS_OP_STORE_VIEW = 80, /* the asker's part of the pool, in a pool's format: its head */
    PORTUS_OP_STORE_READ = 81, /* bytes of that, after STORE_VIEW */
    PORTUS_OP_STORE_BYTES =
        82, /* bytes follow the message in its packet; see STORE_READ and _IMPORT */
    PORTUS_OP_STORE_ALIVE = 83,     /* whether it hears */
    PORTUS_OP_FAR_FETCH = 84,       /* bytes of a ring or of a file that is offered */
    PORTUS_OP_FAR_DATA = 85,        /* they follow, as many as were asked for; or an error */
    PORTUS_OP_FAR_CHECK = 86,       /* of a STORE_FILE: whether its lease is held */
    PORTUS_OP_FAR_STATE = 87,       /* it is, and portus_far_file follows; or an error */
    PORTUS_OP_RDMA_WANT = 90,       /* memory that is not open to the store yet (time: RDMA_*) */
    PORTUS_OP_RDMA_STEP = 91,       /* it is now: portus_rdma_step follows; or an error */
    PORTUS_OP_RDMA_GONE = 92,       /* a ring is to be read no more */
    PORTUS_OP_RDMA_LEFT = 93,       /* and is not */
    PORTUS_OP_RDMA_TAKEN = 94,      /* so many pushes have been taken out of their slots, ever */
    PORTUS_OP_RDMA_LOST = 95,       /* the store's end of that link is broken */
    PORTUS_OP_RDMA_AGAIN = 96,      /* another link, of that number */
    PORTUS_OP_RDMA_AWAIT = 97,      /* it is waited for */
    PORTUS_OP_RDMA_FREE = 98,       /* a piece of a file has been read: its place may be used */
    PORTUS_OP_STORE_SCRUB = 100,    /* begin a pass; so many bytes a second, 0: at full speed */
    PORTUS_OP_STORE_SCRUBBED = 101, /* PORTUS_SCRUB_* of the pass: one number */
    PORTUS_OP_STORE_CLEAN = 102,    /* remove the versions that are damaged and left out */
    PORTUS_OP_STORE_SIZE = 103,     /* make the pool so many bytes large */
    PORTUS_OP_STORE_IMPORT = 104,   /* begin a version from bytes; one begun before is dropped */
    PORTUS_OP_STORE_KEEP = 105,     /* they have been sent: commit it */
    PORTUS_OP_STORE_SETTLE = 106,   /* with this version its directory is whole */
};

enum portus_role {
    PORTUS_ROLE_CLIENT = 1,
    PORTUS_ROLE_LOOK = 2,
    PORTUS_ROLE_KEEP = 3, /* to a store: an agent or portusctl */
};

struct portus_message {
    uint32_t magic;
    uint16_t version;
    uint16_t op;
    uint32_t length; /* sizeof(struct portus_message) */
    uint32_t value;  /* HELLO: role. WELCOME: session number, or ~0 for a looker. ENGAGE: file.
                        STORE_*: a number of the asker's, which is in the answer.
                        STORE_DRAFT, _SEAL: that of the STORE_FILE to come. STORE_RING, _PULL,
                        _PULLED: the ring's */
    uint64_t size;   /* HELLO: the largest ring wanted, bytes; 0: the agent's choice; to a
                        store: a number for the job.
                        WELCOME: the ring's whole address range, bytes.
                        ENGAGE: inode of the file.
                        STORE_FILE: inode of its directory. STORE_DONE: number of the commit,
                        or bytes free, or of a view's head.
                        STORE_PIN, _REMOVE, _SETTLE: a commit. STORE_ROOM: bytes.
                        STORE_READ, _BYTES: offset.
                        STORE_RING, _DRAFT: sequence of the first record that counts.
                        STORE_PULL, _PULLED: sequence after the last one. STORE_SEAL: the
                        file's size */
    uint32_t flags;  /* HELLO, of a client: portus_store_hash (name.h) of its PORTUS_STORE.
                        WELCOME: PORTUS_WELCOME_*. STORE_*: PORTUS_STORE_*.
                        STORE_DRAFT: ring << 16 | the file's number in the records.
                        STORE_READ: how many bytes, PORTUS_STORE_READ at most.
                        STORE_BYTES, _IMPORT: how many follow */
    int32_t error;   /* WELCOME, STORE_DONE: 0, or a negative errno: refused */
    int64_t time;    /* STORE_SEAL: the file's mtime, ns since 1970 */
};

/* The first client of this agent: it says the line "what is on". */
#define PORTUS_WELCOME_FIRST 1u

/* The agent keeps versions elsewhere, or not, than this client wants. */
#define PORTUS_WELCOME_OTHER 8u

/* Of a store: it pulls and commits, and what it has committed outlives a power cut. */
#define PORTUS_WELCOME_STORE 2u
#define PORTUS_WELCOME_DURABLE 4u

/* No other file of this directory and job is being written: with it a set is whole. */
#define PORTUS_STORE_LAST 1u
#define PORTUS_STORE_UNPIN 2u
#define PORTUS_STORE_PULLED 4u /* what was pulled of it is what stands in it */
#define PORTUS_STORE_KEPT 8u   /* so it was committed already */

/*
 * Between two machines the same messages go over a connection that both have proven
 * (src/transport/wire.h), with bytes behind them instead of descriptors: `length` is that
 * of both. HELLO carries portus_far_hello, STORE_DRAFT, STORE_SEAL and STORE_FILE
 * portus_far_file, its path, and (STORE_FILE, STORE_RENAMED) a listing. What of them the
 * store wants it asks for: FAR_FETCH (time: 0 a ring, 1 a file; value: its number; size:
 * offset; flags: bytes), and FAR_CHECK before it commits what it has read of a file.
 */
struct portus_far_hello {
    uint8_t machine[16]; /* tells hosts apart whose file systems have one UUID */
    char release[32];    /* PORTUS_VERSION */
    char host[64];       /* for people */
};

/* What a file is, where its client is. Followed by the path with its NUL. */
struct portus_far_file {
    uint64_t size;
    int64_t mtime, ctime; /* ns since 1970 */
    uint32_t mode, uid, gid, links;
    uint8_t file_system[16];
    uint32_t handle_type, handle_bytes;
    uint8_t handle[128];
    uint32_t path_bytes, zero; /* with the NUL */
};

/*
 * With rdma:// the bytes of rings are read by RDMA, and pushed so. The secret of a link is made of
 * the connection's own. RDMA_WANT: value: the ring; size: offset; flags: bytes. The store
 * says RDMA_LEFT when none of its READs of that ring is under way.
 */
#define PORTUS_RDMA_RING 0
#define PORTUS_RDMA_SLOTS 1 /* for pushes, PORTUS_RDMA_SLOT bytes each: the message, its bytes */
#define PORTUS_RDMA_SLOT (68u << 10)
#define PORTUS_RDMA_PUSHES 64u /* slots */
#define PORTUS_RDMA_FILE 2     /* a file: so much of it is put where the store may read it */
#define PORTUS_RDMA_PIECES 8u  /* at once; RDMA_STEP: size: the place's number */

/* Memory of a client that the store may read (a ring) or write (slots), as one link knows it. */
struct portus_rdma_step {
    uint64_t offset, length; /* in the ring, bytes */
    uint64_t address;
    uint32_t key[4]; /* of each device */
};

/* Behind a STORE_IMPORT: what is known of the file. Then its path and its job, each with a NUL. */
struct portus_import {
    uint64_t size;
    int64_t mtime; /* ns since 1970 */
    uint32_t mode, uid, gid;
    uint32_t owner;                       /* whose it is to be, if root imports it */
    uint32_t settled;                     /* 0 or 1 */
    uint32_t path_bytes, job_bytes, zero; /* with the NULs */
};

#define PORTUS_STORE_READ (1u << 20)
#define PORTUS_STORE_BYTES (64u << 10) /* in a packet at most */

/* Flags of STORE_SCRUBBED: which number is asked for. PASSES: that are finished; STORE_SCRUB is
 * answered with what that will be when the pass is over. */
#define PORTUS_SCRUB_PASSES 0u
#define PORTUS_SCRUB_DONE 1u /* bytes; an error if the last pass did not get through */
#define PORTUS_SCRUB_TOTAL 2u
#define PORTUS_SCRUB_COPIES 3u   /* superblocks and slots that were written anew */
#define PORTUS_SCRUB_REPAIRED 4u /* versions */
#define PORTUS_SCRUB_DAMAGED 5u

_Static_assert(sizeof(struct portus_message) == 40, "portus_message");
_Static_assert(sizeof(struct portus_far_hello) == 112, "portus_far_hello");
_Static_assert(sizeof(struct portus_far_file) == 200, "portus_far_file");
_Static_assert(sizeof(struct portus_rdma_step) == 40, "portus_rdma_step");
_Static_assert(sizeof(struct portus_import) == 48, "portus_import");

#endif
