/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parsers_fuzz.c -- what reads text and packets of others, given anything
 *
 * The first byte says which: messages, environment, a file's first bytes, text as JSON,
 * lists of files, timelines, portusd's configuration, labels, keys, programs and scripts, metrics,
 * attributes of exported versions, what /proc and /sys say, the control segment, addresses, what comes over
 * a connection with a key and what comes before. Right: no finding of ASan or UBSan, and what is said at
 * each assertion. `make fuzz-parsers`; seeds: seeds.py.
 */
#include <assert.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/link.h"
#include "client/pages.h"
#include "common/address.h"
#include "common/env.h"
#include "common/host.h"
#include "common/listing.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/message.h"
#include "common/metrics.h"
#include "common/quote.h"
#include "ctl/ctl.h"
#include "ctl/elf.h"
#include "ctl/look.h"
#include "ctl/portable.h"
#include "ctl/text.h"
#include "ctl/try.h"
#include "format/sniff.h"
#include "portus/proto.h"
#include "store/config.h"
#include "transport/key.h"
#include "transport/wire.h"

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

static void fuzz_program(const uint8_t *data, size_t size)
{
    char path[64], interpreter[PATH_MAX], argument[PATH_MAX];
    struct elf_facts facts;
    int fd = file_of(data, size, path);

    if (elf_read(&facts, path) == 0)
        assert(strlen(facts.interpreter) < PATH_MAX && (facts.bits == 64 || facts.bits == 32));
    if (script_read(path, interpreter, argument) == 0)
        assert(interpreter[0] != '\0' && strlen(interpreter) < 256 && strlen(argument) < 256);
    close(fd);
}

/* advise's, in place of those of a command line. */
int options_parse(struct options *options, int argc, char **argv, unsigned accepts)
{
    *options = (struct options){.mtbf = 28800, .stall = -1, .drain = -1, .restart = -1, .plain = 30};
    options->json = argc & 1;
    return 1;
}

static void fuzz_metrics(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = file_of(data, size, path);
    char *words[] = {"advise", path, path, NULL};

    advise_main(size & 1 ? 2 : 3, words);
    close(fd);
}

static void fuzz_portable(const uint8_t *data, size_t size)
{
    struct portable portable = {0};
    char *text = text_of(data, size);

    portable_read(&portable, (const char *)data, size);
    assert(strlen(portable.job) < sizeof(portable.job));
    if (portable_cut(&portable, text))
        assert(portable.commit > 0 && text[0] != '\0');
    free(text);
}

/* ---- what the kernel says, from the input ---- */

static int pretended = -1; /* what is open in place of such a file */

static bool of_kernel(const char *path)
{
    return pretended >= 0 && (strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0 ||
                              strncmp(path, "/etc/", 5) == 0);
}

static int pretend(void)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", pretended);
    return (int)syscall(SYS_openat + 0L, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 1L << 40);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list more;
    unsigned mode;

    va_start(more, flags);
    mode = flags & O_CREAT ? va_arg(more, unsigned) : 0;
    va_end(more);
    return of_kernel(path) ? pretend() : __real_open(path, flags, mode);
}

/* The last argument of pretend()'s own call tells it from others. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
__attribute__((no_sanitize("address", "undefined"))) long __wrap_syscall(long number, ...)
{
    va_list more;
    long a[6];

    va_start(more, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(more, long);
    va_end(more);
    if (number == SYS_openat && a[3] != 1L << 40 && of_kernel((const char *)a[1]))
        return pretend();
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void fuzz_kernel(const uint8_t *data, size_t size)
{
    char path[64];
    uint8_t id[16];
    struct portus_mapping mapping;
    struct portus_walk walk;
    struct portus_source source;
    uintptr_t at = 0;
    int fd = file_of(data, size, path);

    source = (struct portus_source){.maps = fd, .pages = fd};
    pretended = fd;
    portus_memory_headroom();
    host_id(id);
    portus_process_state(1);
    portus_walk_begin(&walk, &source, 0);
    while (portus_walk_next(&walk, &mapping)) {
        assert(mapping.end > at && strlen(mapping.name) < sizeof(mapping.name));
        at = mapping.end;
    }
    portus_walk_end(&walk);
    portus_mapping_at(&source, 1 << 20, &mapping);
    pretended = -1;
    close(fd);
}

/* ---- others ---- */

/* Pieces {where, how many, bytes} of a segment that is zero elsewhere. */
static void fuzz_control(const uint8_t *data, size_t size)
{
    static struct portus_control control;
    static struct view view;
    static char text[TEXT_ROOM(PORTUS_ERROR_TEXT + PORTUS_FILE_PATH)];

    memset(&control, 0, sizeof(control));
    while (size > 3) {
        size_t where = (size_t)(data[0] | data[1] << 8 | (data[2] & 15) << 16), length = data[2] >> 4;

        where %= sizeof(control);
        data += 3, size -= 3;
        length = length < size ? length : size;
        length = length < sizeof(control) - where ? length : sizeof(control) - where;
        memcpy((char *)&control + where, data, length);
        data += length, size -= length;
    }
    look(&view, &control);
    assert(view.sessions <= PORTUS_SESSIONS && view.files <= PORTUS_FILES);
    assert(strlen(view.last_error) <= PORTUS_ERROR_TEXT && strlen(view.release) < sizeof(view.release));
    view_left(&view);
    text_safe(text, sizeof(text), view.last_error);
    for (unsigned i = 0; i < view.files; i++) {
        assert(view.file[i].drained <= view.file[i].captured && view.file[i].session < PORTUS_SESSIONS);
        text_safe(text, sizeof(text), view.file[i].path);
        text_errno(view.file[i].error);
    }
    for (unsigned i = 0; i < view.sessions; i++)
        assert(view.session[i].tail <= view.session[i].head && view.session[i].drained <= view.session[i].captured);
}

static void fuzz_address(const uint8_t *data, size_t size)
{
    struct portus_address address;
    char *text = text_of(data, size);
    unsigned count = portus_address_count(text);

    assert(count <= PORTUS_ADDRESSES);
    for (unsigned i = 0; i < count; i++)
        assert(portus_address_get(&address, text, i) && address.host[0] != '\0' &&
               strlen(address.text) <= size);
    free(text);
}

/* A connection from nobody, which says this. */
static struct wire *knock(const uint8_t *data, size_t size, int *from)
{
    static struct keys keys;
    static struct key alice = {.name = "alice", .owner = KEY_OWNERS | 2};
    struct wire *wire = NULL;
    int pair[2];

    keys = (struct keys){.key = &alice, .count = 1};
    memset(alice.secret, 0x5a, sizeof(alice.secret));
    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    if (write(pair[0], data, size) < 0 || wire_accept(&wire, &keys, pair[1]) != 0)
        abort();
    *from = pair[0];
    return wire;
}

static void fuzz_knock(const uint8_t *data, size_t size)
{
    int from;
    struct wire *wire = knock(data, size, &from);

    for (unsigned i = 0; i < 4; i++)
        assert(wire_prove(wire) != 0); /* it has no key */
    wire_close(wire);
    close(from);
}

static const uint8_t *heard; /* by SSL_read, in place of what it would */
static size_t heard_left;
int __real_SSL_read(SSL *ssl, void *to, int bytes);
int __wrap_SSL_read(SSL *ssl, void *to, int bytes);
int __wrap_SSL_read(SSL *ssl, void *to, int bytes)
{
    size_t piece = heard_left < (size_t)bytes ? heard_left : (size_t)bytes;

    if (piece == 0)
        return __real_SSL_read(ssl, to, bytes);
    piece = piece > 999 ? 999 : piece;
    memcpy(to, heard, piece);
    heard += piece;
    heard_left -= piece;
    return (int)piece;
}

static void fuzz_wire(const uint8_t *data, size_t size)
{
    struct portus_message message;
    const void *bytes;
    size_t length;
    int from;
    struct wire *wire = knock(data, 0, &from);

    heard = data, heard_left = size;
    while (wire_receive(wire, &message, &bytes, &length) == 0) {
        assert(message.length == sizeof(message) + length && length <= size);
        assert(length == 0 || memchr(bytes, 0x5a, length) != &message); /* all of them are there */
    }
    heard_left = 0;
    wire_close(wire);
    close(from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parser[])(const uint8_t *, size_t) = {
        fuzz_message, fuzz_environment, fuzz_sniff,   fuzz_quote,   fuzz_listing,  fuzz_timeline,
        fuzz_config,  fuzz_label,       fuzz_keys,    fuzz_program, fuzz_metrics,  fuzz_portable,
        fuzz_kernel,  fuzz_control,     fuzz_address, fuzz_knock,   fuzz_wire};
    static bool quiet;

    if (!quiet && freopen("/dev/null", "w", stdout) == NULL) /* advise's words */
        abort();
    quiet = true;
    signal(SIGPIPE, SIG_IGN);
    portus_log_setup(PORTUS_LOG_WARN, "/dev/null", "fuzz: ");
    if (size > 0)
        parser[data[0] % (sizeof(parser) / sizeof(parser[0]))](data + 1, size - 1);
    return 0;
}
