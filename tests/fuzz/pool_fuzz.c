/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_fuzz.c -- libFuzzer's entry: pools that someone has made to do harm
 *
 *     make fuzz-pool F='-max_total_time=60'        (clang, with its libFuzzer)
 *
 * In memory; or (a bit of the first byte) as a portusd shows it that is not to be trusted, which
 * answers what it likes.
 */
#define POOL_IMAGE_ALONE
#include "pool_patch.h"

#include <fcntl.h>

#include "common/message.h"
#include "store/remote.h"

enum { SHOWN = 16, LIES = 32 };

/* Of a pool that says to be huge the map of its room cannot be had: that is an error like others. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static char *base, *image;
static struct portus_message asked;
static uint64_t given;      /* bytes of what was asked for */
static const uint8_t *lies; /* one an answer */
static size_t lies_left;

static int dial(const char *name)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int __wrap_portus_message_send(int socket, const struct portus_message *message, const int *fds, unsigned count);
int __wrap_portus_message_send(int socket, const struct portus_message *message, const int *fds, unsigned count)
{
    asked = *message;
    given = 0;
    return 0;
}

/* What lies in the patched image, zeros beyond it. */
static void read_image(uint64_t offset, char *to, uint32_t length)
{
    memset(to, 0, length);
    if (offset < PATCH_SIZE)
        memcpy(to, image + offset, length < PATCH_SIZE - offset ? length : PATCH_SIZE - offset);
}

int __wrap_portus_message_receive_bytes(int socket, struct portus_message *message, void *bytes, uint32_t room,
                                        int milliseconds);
int __wrap_portus_message_receive_bytes(int socket, struct portus_message *message, void *bytes, uint32_t room,
                                        int milliseconds)
{
    uint8_t lie = lies_left > 0 ? *lies : 0;

    lies += lies_left > 0;
    lies_left -= lies_left > 0;
    *message = portus_message_make(asked.op == PORTUS_OP_HELLO        ? PORTUS_OP_WELCOME
                                   : asked.op == PORTUS_OP_STORE_READ ? PORTUS_OP_STORE_BYTES
                                                                      : PORTUS_OP_STORE_DONE);
    message->value = asked.value + (lie == 1);
    message->size = IMAGE_DATA + (lie & 0x80 ? (uint64_t)lie << (lie & 15) : 0);
    message->error = lie == 2 ? -116 : lie == 3 ? 22 : 0;
    if (lie == 4)
        message->op = PORTUS_OP_STORE_DONE;
    if (message->op != PORTUS_OP_STORE_BYTES)
        return lie == 5 ? -EPROTO : 0;
    message->flags = room < PORTUS_STORE_BYTES ? room : PORTUS_STORE_BYTES;
    if (lie > 5 && lie < message->flags)
        message->flags = lie - 6u;
    read_image(asked.size + given, bytes, message->flags);
    given += message->flags;
    return 0;
}

static void shown(const uint8_t *data, size_t size)
{
    struct pool *pool;

    lies = data, lies_left = data[0] & LIES ? size : 0;
    patch_make(image, base, data, size);
    if (remote_open(&pool, "tcp://store") != 0)
        return;
    pool_each(pool, patch_verify, pool);
    pool_close(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (base == NULL) {
        struct contents contents;

        portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "portus: ");
        remote_dial_by(dial);
        base = aligned_alloc(4096, PATCH_SIZE);
        image = aligned_alloc(4096, PATCH_SIZE);
        if (base == NULL || image == NULL)
            abort();
        patch_base(base, &contents);
        memcpy(image, base, PATCH_SIZE);
    }
    if (size > 0 && data[0] & SHOWN)
        shown(data, size);
    else
        patch_run(image, base, data, size);
    return 0;
}
