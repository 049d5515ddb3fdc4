/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steps.c -- preloaded into portusd or portus-carrier: stops it (step.h) before or after a message of a kind
 *
 *     greets 0         before TLS begins; of portusd: it has been called
 *     greeted 0        when it has sent its first part
 *     says OP          before it is encrypted and sent
 *     said OP          when the kernel has it
 *     hears OP         when its head has come, before it is handled
 *
 * What is read and written is known in between: the program calls OpenSSL by its dynamic symbols.
 */
#include <dlfcn.h>
#include <stdint.h>

#include "portus/proto.h"
#include "step.h"

typedef int transfer(void *ssl, void *bytes, int length);

static transfer *next(const char *name)
{
    return (transfer *)dlsym(RTLD_NEXT, name);
}

/* Of each message that begins in these bytes; the rest of one that began before has no head. */
static void each(const char *what, const uint8_t *bytes, int length)
{
    struct portus_message message;

    for (int64_t at = 0; at + (int64_t)sizeof(message) <= length; at += message.length) {
        memcpy(&message, bytes + at, sizeof(message));
        if (message.magic != PORTUS_PROTO_MAGIC || message.length < sizeof(message))
            return;
        step(what, message.op);
    }
}

int SSL_do_handshake(void *ssl)
{
    int (*real)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "SSL_do_handshake");

    int result, saved;

    step("greets", 0);
    result = real(ssl);
    saved = errno;
    step("greeted", 0);
    errno = saved;
    return result;
}

int SSL_write(void *ssl, const void *bytes, int length)
{
    int result;

    each("says", bytes, length);
    result = next("SSL_write")(ssl, (void *)(uintptr_t)bytes, length);
    if (result > 0)
        each("said", bytes, result);
    return result;
}

int SSL_read(void *ssl, void *bytes, int length)
{
    int result = next("SSL_read")(ssl, bytes, length);

    if (result > 0 && result == (int)sizeof(struct portus_message))
        each("hears", bytes, result);
    return result;
}
