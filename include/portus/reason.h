/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reason.h -- why a checkpoint was not captured: the shim's words and the agent's numbers
 */
#ifndef PORTUS_REASON_H
#define PORTUS_REASON_H

/* X(name, label, words) */
#define PORTUS_REASONS(X)                                                                          \
    X(APPEND, "append", "opened for appending")                                                    \
    X(DIRECT, "direct", "opened with O_DIRECT or O_SYNC")                                          \
    X(LINKS, "links", "without a name, or with several")                                           \
    X(UNSEEN, "unseen", "named as Rust's tempfile does, which renames unseen")                     \
    X(MEMORY, "memory", "in memory already")                                                       \
    X(SHARED, "shared", "on a shared file system")                                                 \
    X(LIMIT, "limit", "under a file size limit")                                                   \
    X(DESCRIPTORS, "descriptors", "too few descriptors allowed")                                   \
    X(BUSY, "busy", "open elsewhere, too")                                                         \
    X(AGENT, "agent", "no agent")                                                                  \
    X(PASSIVE, "passive", "capture is switched off")                                               \
    X(FULL, "full", "too many live files")                                                         \
    X(LEASE, "lease", "no lease to be had")                                                        \
    X(UNDER_WAY, "under_way", "another write of it is under way")                                  \
    X(SILENT, "silent", "behind a save to a shared file system that does not answer")

#define PORTUS_REASON_ENUM(name, label, words) PORTUS_REASON_##name,
enum portus_reason { PORTUS_REASONS(PORTUS_REASON_ENUM) PORTUS_REASON_COUNT };

#endif
