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
 *
 * A looker (role PORTUS_ROLE_LOOK: a process that only has to wait for others,
 * and portusctl) gets the control segment and the doorbell, and no ring.
 *
 * The peer's uid comes from the socket (SO_PEERCRED), never from a message.
 * Operations from 64 up are kept for the store; they are refused.
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
    PORTUS_OP_STORE = 64,
};

enum portus_role {
    PORTUS_ROLE_CLIENT = 1,
    PORTUS_ROLE_LOOK = 2,
};

struct portus_message {
    uint32_t magic;
    uint16_t version;
    uint16_t op;
    uint32_t length; /* sizeof(struct portus_message) */
    uint32_t value;  /* HELLO: role. WELCOME: session number, or ~0 for a looker. ENGAGE: file */
    uint64_t size;   /* HELLO: the largest ring wanted, bytes; 0: the agent's choice.
                        WELCOME: the ring's whole address range, bytes.
                        ENGAGE: inode of the file */
    uint32_t flags;  /* WELCOME: PORTUS_WELCOME_* */
    int32_t error;   /* WELCOME: 0, or a negative errno: refused */
};

/* The first client of this agent: it says the line "what is on". */
#define PORTUS_WELCOME_FIRST 1u

_Static_assert(sizeof(struct portus_message) == 32, "portus_message");

#endif
