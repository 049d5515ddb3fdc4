/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parsers_fuzz.c -- what reads text and packets of others, given anything
 *
 * The first byte says which: messages, environment, a file's first bytes, text as JSON,
 * lists of files, timelines, portusd's configuration, labels, keys. Right: no finding of ASan or
 * UBSan, and what is said at each assertion. `make fuzz-parsers`; seeds: seeds.py.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/env.h"
#include "common/listing.h"
#include "common/log.h"
#include "common/message.h"
#include "common/metrics.h"
#include "common/quote.h"
#include "ctl/ctl.h"
#include "ctl/try.h"
#include "format/sniff.h"
#include "portus/proto.h"
#include "store/config.h"
#include "transport/key.h"

#define ROOM 65536

extern char **environ;

void complain(const char *format, ...)
{
}

int tree_read_file(struct tree_entry *entry, const char *path)
{
    return -1; /* try_saves.c needs none of it */
}

/* A copy that ends with a NUL, of exactly that size: beyond it is a finding. */
static char *text_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static int file_of(const uint8_t *data, size_t size, char path[64])
{
    int fd = memfd_create("fuzz", MFD_ALLOW_SEALING);

    assert(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void fuzz_message(const uint8_t *data, size_t size)
{
    static uint8_t bytes[ROOM];
    struct portus_message message;
    int pair[2], fds[4];
    unsigned count = 0;

    assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0);
    for (unsigned i = 0; i < 2; i++)
        if (send(pair[0], data, size, MSG_NOSIGNAL) < 0)
            assert(size > ROOM);
    close(pair[0]);
    if (portus_message_receive(pair[1], &message, fds, &count, 0) == 0)
        assert(message.magic == PORTUS_PROTO_MAGIC && count == 0);
    if (portus_message_receive_bytes(pair[1], &message, bytes, sizeof(bytes), 0) == 0)
        assert(message.magic == PORTUS_PROTO_MAGIC && message.length == sizeof(message));
    close(pair[1]);
}

static void fuzz_environment(const uint8_t *data, size_t size)
{
    static struct portus_env env;
    static char *list[64];
    char **usual = environ, *text = text_of(data, size), *line, *rest = text;
    unsigned count = 0;

    while (count < 63 && (line = strsep(&rest, "\n")) != NULL)
        if (strchr(line, '=') != NULL)
            list[count++] = line;
    list[count] = NULL;
    environ = list;
    portus_env_load(&env);
    assert(env.min_write > 0 && env.keep > 0 && env.mode >= 0 && env.mode <= PORTUS_OFF);
    assert(strlen(env.match) < PORTUS_ENV_TEXT && strlen(env.log_file) < PORTUS_ENV_TEXT);
    for (unsigned i = 0; i < count; i++) {
        portus_env_match(env.match, list[i]);
        portus_env_match(list[i], "directory/model-00001-of-00002.safetensors");
    }
    environ = usual;
    free(text);
}

static void fuzz_sniff(const uint8_t *data, size_t size)
{
    uint8_t *head = malloc(size + (size == 0));

    memcpy(head, data, size);
    portus_sniff(head, size);
    free(head);
}

static void fuzz_quote(const uint8_t *data, size_t size)
{
    size_t room = size > 0 ? 3 + data[0] * 3u : 3, length;
    char *text = text_of(data, size), *out = malloc(room);

    length = portus_quote(out, room, text);
    assert(length >= 2 && length < room && strlen(out) == length);
    assert(out[0] == '"' && out[length - 1] == '"');
    for (size_t i = 1; i < length - 1; i++) {
        assert(out[i] >= 0x20 && out[i] < 0x7f && out[i] != '"');
        i += out[i] == '\\'; /* what follows is escaped, a quotation mark too */
    }
    free(out);
    free(text);
}

static void fuzz_listing(const uint8_t *data, size_t size)
{
    struct listing listing;
    const char *name;
    size_t at = 0;
    int fd = listing_make(data, size);

    assert(fd >= 0 && listing_sealed(fd));
    if (listing_load(&listing, fd) == 0) {
        const struct listing_entry *entry;

        while ((entry = listing_next(&listing, &at, &name)) != NULL)
            assert(strlen(name) < entry->path_bytes && at <= listing.length);
        listing_free(&listing);
    }
    close(fd);
}

static void fuzz_timeline(const uint8_t *data, size_t size)
{
    struct saves saves;
    char path[64];
    int fd = file_of(data, size, path);

    assert(saves_read(&saves, path, "/d") == 0);
    for (size_t i = 0; i < saves.count; i++)
        assert(strlen(saves.list[i].path) < 3 * size);
    saves_free(&saves);
    close(fd);
}

static void fuzz_config(const uint8_t *data, size_t size)
{
    struct config config = {0};
    char path[64];
    int fd = file_of(data, size, path);

    config_reset(&config);
    config_load(&config, path);
    assert(config_limits(&config, 1000) != NULL);
    config_reset(&config);
    close(fd);
}

static void fuzz_keys(const uint8_t *data, size_t size)
{
    struct keys keys = {0};
    char path[64];
    int fd = file_of(data, size, path);

    assert(fchmod(fd, 0600) == 0);
    if (keys_load(&keys, path) == 0)
        assert(keys_find(&keys, "nobody of this name") == NULL);
    keys_free(&keys);
    close(fd);
}

static void fuzz_label(const uint8_t *data, size_t size)
{
    char labels[PORTUS_LABELS] = "", *text = text_of(data, size);

    portus_metrics_label(labels, "job", text);
    portus_metrics_label(labels, "mount", text);
    assert(strlen(labels) < PORTUS_LABELS && strchr(labels, '\n') == NULL);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parser[])(const uint8_t *, size_t) = {
        fuzz_message, fuzz_environment, fuzz_sniff,  fuzz_quote,
        fuzz_listing, fuzz_timeline,    fuzz_config, fuzz_label, fuzz_keys};

    portus_log_setup(PORTUS_LOG_WARN, "/dev/null", "fuzz: ");
    if (size > 0)
        parser[data[0] % (sizeof(parser) / sizeof(parser[0]))](data + 1, size - 1);
    return 0;
}
