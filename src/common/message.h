/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h -- one message and its descriptors over a unix socket
 */
#ifndef PORTUS_MESSAGE_H
#define PORTUS_MESSAGE_H

#include <stdbool.h>

#include "portus/proto.h"

#define PORTUS_MESSAGE_FDS 3

/* Fills in magic, version and length of a message that is zero otherwise. */
struct portus_message portus_message_make(enum portus_op op);

/*
 * Sends message with count descriptors beside it (PORTUS_MESSAGE_FDS at most).
 * Never blocks, never raises SIGPIPE. Returns 0 or a negative errno.
 */
int portus_message_send(int socket, const struct portus_message *message, const int *fds,
                        unsigned count);

/*
 * Receives one message; waits that many milliseconds (0: not at all) for it.
 * Received descriptors are close-on-exec and the caller's: *count of them in fds.
 * Returns 0; -EAGAIN none came; -ECONNRESET the peer hung up; -EPROTO what came
 * is not a message of this version (its descriptors are closed); -EMSGSIZE too
 * many descriptors came with it; -EMFILE this process has no room for them.
 */
int portus_message_receive(int socket, struct portus_message *message, int *fds, unsigned *count,
                           int milliseconds);

/*
 * The same with bytes behind the message, as many as it says (flags), and no descriptors. What
 * is received is checked: it has room for them. Descriptors are no message: they never become
 * this process's, so that it need not close what may not close.
 */
int portus_message_send_bytes(int socket, const struct portus_message *message, const void *bytes);
int portus_message_receive_bytes(int socket, struct portus_message *message, void *bytes,
                                 uint32_t room, int milliseconds);

/* Either: a message with descriptors, or with bytes behind it. It is not waited for. */
int portus_message_receive_any(int socket, struct portus_message *message, int *fds,
                               unsigned *count, void *bytes, uint32_t room);

/*
 * Receives without waiting, and the message stays: until it is dropped the next call, in
 * whichever process, finds it again, with descriptors of its own.
 */
int portus_message_peek(int socket, struct portus_message *message, int *fds, unsigned *count);
int portus_message_drop(int socket);

/* What closes descriptors that came with something that is no message; close(2) otherwise. */
void portus_message_discard_by(void (*discard)(int fd));

/* Who has connected, as the socket knows. False: that cannot be told. */
bool portus_message_who(int socket, uint32_t *uid, uint32_t *pid);

/*
 * Whether the peer of a connected socket is a process of this user; *pid is it then, as the
 * socket knows (0: in a pid namespace that is not seen here).
 */
bool portus_message_peer(int socket, uint32_t *pid);

#endif
