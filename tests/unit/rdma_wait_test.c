/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_wait_test.c -- a store that reads of several clients by RDMA never waits for what does not come by itself
 *
 * The device is this file: it does what has gone out (give), in anybody's turn. One loop, as portusd's: ask each lane what
 * to wait for, wait, give each its turn.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "transport/rdma.h"

#define LANES 2

struct verbs_link {
    bool ready;
    uint64_t asked, out, through, told; /* READs */
};

static struct verbs_link links[LANES];
static unsigned link_count;
static bool works = true; /* the device */

/* ---- the device ---- */

static int begin(struct verbs **out, const struct verbs_options *options, char *why)
{
    *out = (struct verbs *)links;
    return 0;
}

static int descriptor(const struct verbs *verbs)
{
    for (unsigned i = 0; i < link_count; i++)
        assert_int_equal(links[i].out, links[i].asked); /* else it is waited for in vain */
    return 0;
}

static bool turn(struct verbs *verbs)
{
    bool any = false;

    for (unsigned i = 0; i < link_count && works; i++) {
        any |= links[i].through != links[i].out || !links[i].ready;
        links[i].through = links[i].out;
        links[i].ready = true;
    }
    return any;
}

static void give(struct verbs *verbs)
{
    for (unsigned i = 0; i < link_count; i++)
        links[i].out = links[i].asked;
}

static int keep(struct verbs *verbs, void *memory, size_t length, char *why)
{
    return 0;
}

static int expect(struct verbs *verbs, const uint8_t *secret, struct verbs_link **out)
{
    *out = &links[link_count++];
    **out = (struct verbs_link){0};
    return 0;
}

static int listen_at(struct verbs *verbs, const struct sockaddr *address, socklen_t length, char *why)
{
    return 0;
}

static enum verbs_state state(const struct verbs_link *link)
{
    return link->ready ? VERBS_READY : VERBS_BEGINS;
}

static int read_memory(struct verbs_link *link, const struct verbs_source *from, void *to,
                       uint32_t length, uint64_t cookie)
{
    link->asked++;
    return 0;
}

static bool done(struct verbs_link *link, uint64_t *cookie)
{
    if (link->told == link->through)
        return false;
    *cookie = link->told++;
    return true;
}

static int dial(struct verbs *verbs, const struct sockaddr *address, socklen_t length,
                const uint8_t *secret, struct verbs_link **out, char *why)
{
    return expect(verbs, secret, out);
}

static void close_link(struct verbs_link *link)
{
}

static const struct verbs_ops ops = {
    .begin = begin,
    .descriptor = descriptor,
    .turn = turn,
    .give = give,
    .keep = keep,
    .listen = listen_at,
    .expect = expect,
    .dial = dial,
    .state = state,
    .read = read_memory,
    .done = done,
    .close = close_link,
};

const struct verbs_ops *verbs_load(char *why)
{
    return &ops;
}

/* ---- the control connection ---- */

int wire_secret(const struct wire *wire, uint8_t secret[WIRE_SECRET])
{
    return 0;
}

uint32_t wire_owner(const struct wire *wire)
{
    return wire != NULL;
}

const char *wire_peer(const struct wire *wire)
{
    return "a client";
}

static int pair[2];
static unsigned said[128]; /* of each kind */

int wire_descriptor(const struct wire *wire)
{
    return pair[0];
}

int wire_send(struct wire *wire, const struct portus_message *message, const void *bytes, size_t length)
{
    said[message->op]++;
    return 0;
}

static int open_other(struct lane **out, struct wire *wire, const struct transport_client *client)
{
    *out = NULL;
    return 0;
}

static void close_other(struct lane *lane)
{
}

static unsigned watch_other(struct lane *lane, struct pollfd *events, unsigned room, bool *ready)
{
    return 0;
}

static int turn_other(struct lane *lane)
{
    return 0;
}

const struct transport_kind transport_tcp = {
    .open = open_other,
    .close = close_other,
    .watch = watch_other,
    .turn = turn_other,
};

/* ---- a store ---- */

static struct lane *lanes[LANES];
static unsigned ended[LANES];

static void read_ended(struct transport_read *read, const void *bytes, int error)
{
    assert_non_null(bytes);
    ended[(size_t)read->owner]++;
}

/* Whether it may wait now. */
static bool waits(void)
{
    struct pollfd events[LANES];
    bool ready = false;

    for (unsigned i = 0; i < LANES; i++)
        assert_int_equal(transport_rdma.watch(lanes[i], events, LANES, &ready), 1);
    return !ready;
}

static void turns(void)
{
    for (unsigned i = 0; i < LANES; i++)
        assert_int_equal(transport_rdma.turn(lanes[i]), 0);
}

static int open_lanes(void **state)
{
    const struct portus_address address = {.scheme = PORTUS_SCHEME_RDMA};
    const struct addrinfo resolved = {0};

    link_count = 0;
    memset(ended, 0, sizeof(ended));
    if (rdma_ops == NULL)
        assert_int_equal(transport_rdma.listen(&address, &resolved), 0);
    for (unsigned i = 0; i < LANES; i++)
        assert_int_equal(transport_rdma.open(&lanes[i], NULL, NULL), 0);
    turns();
    turns();
    return 0;
}

static int close_lanes(void **state)
{
    for (unsigned i = 0; i < LANES; i++)
        transport_rdma.close(lanes[i]);
    return 0;
}

/* So many READs of a lane's ring, and its client's answer, where the memory is. */
static void read_some(unsigned lane, struct transport_read *reads, unsigned count)
{
    const struct portus_message message = {.op = PORTUS_OP_RDMA_STEP, .value = 1};
    const struct portus_rdma_step step = {.length = 64u << 20};

    for (unsigned i = 0; i < count; i++) {
        reads[i] = (struct transport_read){
            .what = TRANSPORT_RING,
            .id = 1,
            .offset = (uint64_t)i << 20,
            .length = 1u << 20,
            .done = read_ended,
            .owner = (void *)(size_t)lane,
        };
        assert_int_equal(transport_rdma.read(lanes[lane], &reads[i]), 0);
        if (i == 0)
            assert_int_equal(transport_rdma.hear(lanes[lane], &message, &step, sizeof(step)), 0);
    }
}

/* What was asked for after a lane's turn goes out before it is waited for. */
static void test_out(void **state)
{
    static struct transport_read reads[4];

    while (!waits())
        turns();
    read_some(0, reads, 4);
    while (!waits())
        turns();
    turns(); /* the device had something to say */
    assert_int_equal(ended[0], 4);
}

/* Of a file: what a client has put where it can be read is read at once. */
static void test_file(void **state)
{
    const struct portus_message message = {.op = PORTUS_OP_RDMA_STEP, .value = 7, .time = PORTUS_RDMA_FILE};
    const struct portus_rdma_step step = {.length = 1000};
    struct transport_read read = {.what = TRANSPORT_FILE, .id = 7, .length = 1000, .done = read_ended};

    while (!waits())
        turns();
    assert_int_equal(transport_rdma.read(lanes[0], &read), 0);
    assert_int_equal(transport_rdma.hear(lanes[0], &message, &step, sizeof(step)), 0);
    while (!waits())
        turns();
    turns(); /* the device had something to say */
    assert_int_equal(ended[0], 1);
}

/* The last one's turn takes note of what has come for the first: that is not left until something else happens. */
static void test_in(void **state)
{
    static struct transport_read reads[3];

    while (!waits())
        turns();
    read_some(0, reads, 3);
    (void)waits();
    works = false;
    assert_int_equal(transport_rdma.turn(lanes[0]), 0);
    works = true;
    assert_int_equal(transport_rdma.turn(lanes[1]), 0);
    assert_int_equal(ended[0], 0);
    assert_false(waits());
    turns();
    assert_int_equal(ended[0], 3);
    turns();
    (void)waits();
    assert_true(waits()); /* and nobody goes on in a circle */
}

/* Reads that had no buffer go on when another lane gives its own back. */
static void test_buffers(void **state)
{
    static struct transport_read reads[LANES][RDMA_BUFFERS];
    unsigned rounds = 0;

    while (!waits())
        turns();
    read_some(1, reads[1], RDMA_BUFFERS);
    read_some(0, reads[0], RDMA_BUFFERS);
    while (ended[0] + ended[1] < LANES * RDMA_BUFFERS) {
        /* Where it waits nothing would wake it but what is out. */
        if (waits())
            assert_true(links[0].through != links[0].out || links[1].through != links[1].out);
        turns();
        assert_true(++rounds < 1000);
    }
}

/* A store's end of a link is there before its client has looked whether its own is: it is answered all the same. */
static void test_early(void **state)
{
    const struct transport_client client = {0};
    const struct portus_message want = {.op = PORTUS_OP_RDMA_WANT, .value = 1, .flags = 1000};
    struct lane *lane;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    link_count = 0;
    assert_int_equal(transport_rdma.open(&lane, NULL, &client), 0);
    said[PORTUS_OP_RDMA_STEP] = 0;
    assert_int_equal(transport_rdma.hear(lane, &want, NULL, 0), 0);
    assert_int_equal(said[PORTUS_OP_RDMA_STEP], 1); /* an error: it offers no ring */
    transport_rdma.close(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_out, open_lanes, close_lanes),
        cmocka_unit_test_setup_teardown(test_file, open_lanes, close_lanes),
        cmocka_unit_test_setup_teardown(test_in, open_lanes, close_lanes),
        cmocka_unit_test_setup_teardown(test_buffers, open_lanes, close_lanes),
        cmocka_unit_test(test_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
