/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_fuzz.c -- libFuzzer's entry: an agent of this machine that means harm to its portusd
 *
 *     make fuzz-store F='-max_total_time=60'         (clang, with its libFuzzer)
 *
 * portusd's own code but its main; it serves one user, or several (the input's first byte). The input is
 * what two connections say, with descriptors of all kinds beside it: files with leases, rings with
 * records that make sense or not, lists, and what is none of these. Right: no finding of ASan or UBSan, no
 * signal, no descriptor kept when both have gone; and of what the other user has in the pool nothing is lost.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/listing.h"
#include "common/log.h"
#include "common/message.h"
#include "portus/ring.h"
#include "store/pool_private.h"
#include "store/rings.h"
#include "store/state.h"
#include "input.h"

#define FILES 4
#define BYTES (1u << 20)
#define TURNS 300
#define OTHER 4711 /* uid */

static struct store store = {.listener = -1, .keep = 1};
static char place[] = "/dev/shm/portus-fuzz-XXXXXX";
static int end[2], directory, socket_pair[2];
static uint64_t kept; /* the other user's version */

/* Mostly what could be right, at times anything. */
static uint64_t number(uint64_t small)
{
    uint8_t kind = (uint8_t)take(1);

    return kind < 220 ? take(2) % small : kind < 235 ? UINT64_MAX - take(1) : take(8);
}

static int make_ring(void)
{
    int fd = memfd_create("ring", MFD_ALLOW_SEALING);
    struct portus_record record[16] = {0};
    unsigned count = (unsigned)take(1) % 17;

    if (fd < 0 || ftruncate(fd, (off_t)(PORTUS_RING_DATA + BYTES)) < 0)
        abort();
    for (unsigned i = 0; i < count; i++) {
        record[i].offset = number(1 << 16);
        record[i].data = number(BYTES);
        record[i].length = (uint32_t)number(5000);
        record[i].file = (uint32_t)number(4);
        record[i].stamp = i + 1 + (take(1) == 255);
    }
    if (pwrite(fd, record, sizeof(record), 0) != sizeof(record))
        abort();
    if (take(1) != 255)
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    return fd;
}

static int make_list(void)
{
    struct listing_entry entry = {.size = number(BYTES), .handle_type = 1, .handle_bytes = 8, .path_bytes = 8};
    uint8_t bytes[4 * (sizeof(entry) + 8)];
    unsigned count = (unsigned)take(1) % 4 + 1, changes = (unsigned)take(1) % 4;
    int fd;

    for (unsigned i = 0; i < count; i++) {
        memcpy(bytes + i * (sizeof(entry) + 8), &entry, sizeof(entry));
        snprintf((char *)bytes + i * (sizeof(entry) + 8) + sizeof(entry), 8, "/a/b/%u", i);
    }
    while (changes-- > 0)
        bytes[take(2) % (count * (sizeof(entry) + 8))] = (uint8_t)take(1);
    fd = listing_make(bytes, count * (sizeof(entry) + 8) - (take(1) == 255));
    return fd;
}

/* A file of so many bytes, with a lease or without, there or deleted. */
static int make_file(bool only_name)
{
    char name[64];
    unsigned which = (unsigned)take(1);
    int fd, writer;

    snprintf(name, sizeof(name), "%s/%u", place, which % FILES);
    writer = open(name, O_CREAT | O_RDWR | O_NONBLOCK, 0600);
    if (writer < 0) { /* portusd has it, with its lease */
        unlink(name);
        writer = open(name, O_CREAT | O_RDWR, 0600);
    }
    if (writer < 0 || ftruncate(writer, (off_t)(which * 4099)) < 0)
        abort();
    if (which & 8)
        assert(pwrite(writer, place, sizeof(place), 0) > 0);
    close(writer);
    fd = open(name, only_name ? O_PATH : which & 16 ? O_RDWR : O_RDONLY);
    if (!only_name && !(which & 16))
        fcntl(fd, F_SETLEASE, F_RDLCK);
    if (which & 128)
        unlink(name);
    return fd;
}

static int descriptor(unsigned kind)
{
    switch (kind % 16) {
    case 0 ... 4:
        return make_file(false);
    case 5 ... 6:
        return make_file(true);
    case 7 ... 9:
        return make_ring();
    case 10 ... 11:
        return make_list();
    case 12:
        return dup(directory);
    case 13:
        return dup(socket_pair[0]);
    case 14:
        return open("/dev/zero", O_RDWR);
    default:
        return open("/proc/self/status", O_RDONLY);
    }
}

static void say(unsigned from)
{
    static const struct {
        uint16_t op;
        uint8_t count, kind; /* mostly so many descriptors, the first one of that kind */
    } usual[] = {
        {PORTUS_OP_HELLO, 0, 0},        {PORTUS_OP_STORE_FILE, 1, 0},   {PORTUS_OP_STORE_FILE, 2, 0},
        {PORTUS_OP_STORE_RENAMED, 1, 5}, {PORTUS_OP_STORE_RENAMED, 1, 10}, {PORTUS_OP_STORE_RING, 1, 7},
        {PORTUS_OP_STORE_RING, 0, 0},   {PORTUS_OP_STORE_DRAFT, 1, 5},  {PORTUS_OP_STORE_DRAFT, 0, 0},
        {PORTUS_OP_STORE_PULL, 0, 0},   {PORTUS_OP_STORE_PULL, 0, 0},   {PORTUS_OP_STORE_SEAL, 0, 0},
        {PORTUS_OP_STORE_DROP, 0, 0},   {PORTUS_OP_STORE_CANCEL, 0, 0}, {PORTUS_OP_STORE_PIN, 0, 0},
        {PORTUS_OP_STORE_REMOVE, 0, 0}, {PORTUS_OP_STORE_ROOM, 0, 0},   {PORTUS_OP_STORE_VIEW, 0, 0},
        {PORTUS_OP_STORE_READ, 0, 0},   {PORTUS_OP_STORE_ALIVE, 0, 0},  {PORTUS_OP_STORE_SCRUB, 0, 0},
        {PORTUS_OP_STORE_SCRUBBED, 0, 0}, {PORTUS_OP_STORE_CLEAN, 0, 0}, {PORTUS_OP_STORE_SIZE, 0, 0},
        {PORTUS_OP_ENGAGE, 1, 0},       {PORTUS_OP_FAR_FETCH, 0, 0},    {PORTUS_OP_STORE_DRAFT, 2, 5}};
    unsigned which = (unsigned)take(1) % (sizeof(usual) / sizeof(usual[0]));
    struct portus_message message = portus_message_make((enum portus_op)usual[which].op);
    bool right = take(1) < 230;
    unsigned count = right ? usual[which].count : (unsigned)take(1) % 4;
    int fds[4];

    message.value = message.op == PORTUS_OP_HELLO ? PORTUS_ROLE_KEEP : (uint32_t)take(1) & 3;
    message.size = message.op == PORTUS_OP_STORE_PULL ? take(1) % 18
                   : message.op == PORTUS_OP_STORE_READ ? number(1 << 16) + (take(1) & 1) * (2u << 20)
                   : message.op == PORTUS_OP_STORE_SIZE ? 8u << 20 /* to no more memory than there is */
                                                        : number(32);
    message.flags = message.op == PORTUS_OP_STORE_DRAFT ? ((uint32_t)take(1) & 3) << 16 | ((uint32_t)take(1) & 3)
                                                        : (uint32_t)number(1 << 16);
    message.time = (int64_t)take(1);
    for (unsigned i = 0; i < count; i++)
        fds[i] = descriptor(right ? i == 0 ? usual[which].kind : 10 : (unsigned)take(1));
    portus_message_send(end[from], &message, fds, count > PORTUS_MESSAGE_FDS ? PORTUS_MESSAGE_FDS : count);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

static void listen_to_store(int from)
{
    struct portus_message message;
    static uint8_t bytes[PORTUS_STORE_BYTES];

    while (portus_message_receive_bytes(from, &message, bytes, sizeof(bytes), 0) == 0)
        ;
}

/* A version of somebody's, that nobody else may touch. */
static void keep_one(void)
{
    struct pool_key key = {.owner = OTHER, .handle_bytes = 8};
    struct pool_attributes attributes = {.path = "/other/file", .job = "job", .size = 5, .mode = 0100600, .uid = OTHER};
    struct pool_draft *draft;

    if (pool_begin(store.pool, &key, &draft) != 0 || pool_write(draft, 0, "other", 5) != 0 ||
        pool_commit(draft, &attributes, &kept) != 0)
        abort();
}

static void once(void)
{
    char path[] = "/dev/shm/portus-fuzz-XXXXXX";
    int fd = mkstemp(path);

    signal(SIGIO, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "portus: ");
    close(fd);
    unlink(path);
    if (fd < 0 || mkdtemp(place) == NULL || pool_create(path, 16 << 20, 64, false) != 0 ||
        pool_open(&store.pool, path, true) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, socket_pair) < 0)
        abort();
    unlink(path);
    directory = open(place, O_RDONLY | O_DIRECTORY);
    store.self = geteuid();
    config_reset(&store.config);
    store.config.usual.bytes = 4 << 20;
    for (unsigned i = 0; i < STORE_PEERS; i++)
        store.peer[i].socket = -1;
    keep_one();
}

static void forget(void)
{
    for (char name[2] = "0"; name[0] < '0' + FILES; name[0]++)
        unlinkat(directory, name, 0);
    rmdir(place);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    unsigned before;

    if (store.pool == NULL) {
        once();
        atexit(forget);
    }
    before = descriptors();
    data = bytes, left = size;
    store.shared = store.strangers = take(1) & 1;
    for (unsigned i = 0; i < 2; i++) {
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
            abort();
        end[i] = pair[0];
        store.peer[i] = (struct store_peer){.socket = pair[1],
                                            .pid = (uint32_t)getpid(),
                                            .uid = store.shared ? 1000 + i : store.self,
                                            .welcomed = take(1) < 250};
    }
    for (unsigned i = 0; i < TURNS && left > 0; i++) {
        say(take(1) & 1);
        rings_turn(&store);
        store_take(&store);
        store_listen(&store, -1, 0);
        listen_to_store(end[0]);
        listen_to_store(end[1]);
    }
    close(end[0]);
    close(end[1]);
    for (unsigned i = 0; i < TURNS && (store_peers(&store) > 0 || store_waits(&store)); i++) {
        rings_turn(&store);
        store_take(&store);
        store_listen(&store, -1, 0);
    }
    assert(store_peers(&store) == 0 && !store_waits(&store));
    for (unsigned i = 0; i < 2000 && descriptors() > before; i++)
        usleep(1000); /* a ring's last one is closed by a thread */
    assert(descriptors() <= before);
    assert(!store.shared || pool_find(store.pool, kept) != NULL);
    if (pool_find(store.pool, kept) == NULL)
        keep_one(); /* who runs it may remove all */
    return 0;
}
