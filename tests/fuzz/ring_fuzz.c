/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_fuzz.c -- libFuzzer's entry: clients that lie in their rings, in the control segment and in what
 * they say, and a store that lies
 *
 *     make fuzz-ring F='-max_total_time=60'         (clang, with its libFuzzer)
 *
 * The agent's own code but its main. The input is what clients do: records, heads, entries of files,
 * messages with descriptors of all kinds, an end; and what a store answers; between them the agent takes
 * its turns. Some inputs run with a thread that changes records and heads while they are read. Right: no
 * finding of ASan or UBSan, the agent does not give up, it writes what lies in that ring only, a file
 * of another session, which every record may name, keeps its bytes; and when all have hung up no
 * connection, session or file of theirs is left.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/futex.h"
#include "common/log.h"
#include "common/message.h"
#include "input.h"

#define FILES 6
#define VICTIM 4 /* of session 1; all others are fuzzed of session 0 */
#define CLIENTS 3
#define SAID 8
#define ROOM (1u << 20)

static struct agent agent;
static struct portus_control *control;
static char victim[ROOM];
static int victim_fd, socket_pair[2], directory, dead, alive;
static _Atomic int scribbling;
static bool ending;
static unsigned hellos;
static int client[CLIENTS]; /* their ends; the first one has session 0. 0: none */
static int store;           /* its end */
static uint32_t said[SAID]; /* numbers that the agent has given files and rings */
static unsigned saids;

void __real__exit(int status);
void __wrap__exit(int status);
void __wrap__exit(int status)
{
    abort(); /* the agent has given up */
}

/* All that the agent writes is out of the client's own ring. */
ssize_t __real_pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags);
ssize_t __wrap_pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags);
ssize_t __wrap_pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    const uint8_t *ring = agent.ring[0] + PORTUS_RING_DATA;
    uint64_t bytes = agent.state->session[0].ring_map - PORTUS_RING_DATA;

    assert(offset >= 0 && count > 0);
    for (int i = 0; i < count; i++) {
        const uint8_t *from = vector[i].iov_base;
        assert(from >= ring && vector[i].iov_len <= bytes && from <= ring + bytes - vector[i].iov_len);
    }
    return __real_pwritev2(fd, vector, count, offset, flags);
}

/* Mostly what could be right, at times anything. */
static uint64_t number(uint64_t small)
{
    uint8_t kind = (uint8_t)take(1);

    if (kind < 200)
        return take(2) % small;
    if (kind < 220)
        return UINT64_MAX - take(1);
    if (kind < 240)
        return (1ull << (take(1) & 63)) - (take(1) & 1);
    return take(8);
}

static struct portus_record *record(uint64_t sequence)
{
    return (struct portus_record *)agent.ring[0] + sequence % PORTUS_RECORDS;
}

/* Two values in turn, in places that the agent reads: what it has checked must be what it uses. */
static void *scribble(void *argument)
{
    static const uint32_t lengths[] = {1, PORTUS_CHUNK, UINT32_MAX, 0};
    static const uint64_t places[] = {0, 1 << 20, UINT64_MAX - 100, 1ull << 40};

    for (unsigned i = 0;; i++) {
        if (!atomic_load(&scribbling)) {
            usleep(50);
            continue;
        }
        atomic_fetch_add(&scribbling, 2);
        if (atomic_load(&scribbling) & 1)
            for (unsigned j = 0; j < 8; j++) {
                volatile struct portus_record *at = record(i + j);
                at->length = lengths[(i / 3 + j) % 4];
                at->data = places[(i / 5 + j) % 4];
                at->offset = places[(i / 7 + j) % 4];
                at->file = (i + j) % 9 == 0 ? UINT32_MAX - i : (i + j) % FILES;
            }
        atomic_fetch_sub(&scribbling, 2);
    }
    return argument;
}

static int memory_file(void)
{
    int fd = memfd_create("file", MFD_CLOEXEC);

    assert(fd >= 0);
    return fd;
}

static void open_session(unsigned expected)
{
    struct agent_peer peer = {.pidfd = dup(alive), .pid = (uint32_t)getpid()};

    assert(agent_session_open(&agent, &peer, 16 << 20) == (int)expected);
}

static void once(void)
{
    pthread_t thread;
    pid_t child;

    agent.state = mmap(NULL, sizeof(*agent.state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    control = agent.control = calloc(1, sizeof(*control));
    agent.state->doorbell = eventfd(0, EFD_NONBLOCK);
    agent.state->breaks = eventfd(0, EFD_NONBLOCK);
    agent.state->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    portus_env_load(&agent.state->env);
    strcpy(agent.state->env.store, "/nowhere/is/a/pool");
    agent.state->keeper = getpid();
    signal(SIGRTMIN, SIG_IGN);
    signal(SIGIO, SIG_IGN);
    portus_log_setup(PORTUS_LOG_ERROR, "/dev/null", "fuzz: ");
    directory = open("/tmp", O_RDONLY | O_DIRECTORY);
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, socket_pair) == 0);
    alive = (int)syscall(SYS_pidfd_open, getpid(), 0);
    child = fork();
    if (child == 0)
        __real__exit(0);
    dead = (int)syscall(SYS_pidfd_open, child, 0);
    assert(alive >= 0 && dead >= 0 && waitpid(child, NULL, 0) == child);
    open_session(0);
    open_session(1);
    memset(victim, 0x5a, sizeof(victim));
    victim_fd = memory_file();
    assert(write(victim_fd, victim, sizeof(victim)) == sizeof(victim));
    assert(pthread_create(&thread, NULL, scribble, NULL) == 0);
}

/* As a fresh client finds it. */
static void begin(void)
{
    struct portus_session *shared = &control->session[0];

    for (unsigned i = 0; i < FILES; i++) {
        if (agent.state->file[i] != 0)
            close(agent.state->file[i]);
        agent.state->file[i] = 0;
        agent.state->owner[i] = 0;
    }
    memset(control->file, 0, FILES * sizeof(control->file[0]));
    if (agent.state->session[0].ring == 0)
        open_session(0);
    agent.state->session[0].tail = 0;
    agent.state->session[0].liar = false;
    if (agent.state->session[0].pidfd != 0)
        close(agent.state->session[0].pidfd);
    agent.state->session[0].pidfd = dup(alive);
    atomic_store(&shared->state, PORTUS_SESSION_ACTIVE);
    atomic_store(&shared->head, 0);
    atomic_store(&shared->tail, 0);
    atomic_store(&shared->wanted, 0);
    atomic_store(&control->passive, 0);
    memset(agent.ring[0], 0, 64 * sizeof(struct portus_record));
    agent.state->owner[VICTIM] = 2;
    agent.state->file[VICTIM] = dup(victim_fd);
    atomic_store(&control->file[VICTIM].owner, 2);
    atomic_store(&control->file[VICTIM].state, PORTUS_FILE_LIVE);
}

/* What a client may pass. */
static int descriptor(unsigned kind)
{
    int fd;

    switch (kind % 12) {
    case 0:
        return dup(socket_pair[0]);
    case 1:
        return dup(directory);
    case 2:
        return open("/dev/null", O_RDWR);
    case 3:
        return open("/proc/self/exe", O_RDONLY);
    case 4:
        return open("/proc/self/exe", O_PATH);
    case 5:
        fd = memory_file(); /* every write to it fails */
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
        return fd;
    default:
        return memory_file();
    }
}

/* An entry, and a descriptor for it, as ENGAGE brings them. */
static void engage(unsigned which, unsigned kind)
{
    struct portus_file *file = &control->file[which % FILES];
    struct stat status = {0};
    int fd;

    if (which % FILES == VICTIM)
        return;
    fd = descriptor(kind);
    fstat(fd, &status);
    atomic_store(&file->owner, 1 + (take(1) == 255));
    atomic_store(&file->leaseless, take(1) < 250);
    file->inode = status.st_ino + (take(1) == 255);
    atomic_store(&file->state, PORTUS_FILE_CLAIMED);
    if (agent_file_engage(&agent, 0, which, file->inode, fd) != 1)
        close(fd);
}

/* ---- what is said to it ---- */

/* Sends, with some descriptors or none; mostly what fits the message. */
static void say(int to, struct portus_message *message, uint32_t session)
{
    struct portus_file *file = &control->file[message->value % FILES];
    int fds[4];
    unsigned count = take(1) < 200 ? message->op == PORTUS_OP_ENGAGE || message->op == PORTUS_OP_RENAMED
                                   : (unsigned)take(1) % 5;
    struct iovec bytes = {message, take(1) == 255 ? take(1) % sizeof(*message) : sizeof(*message)};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(fds))];
    } rights = {0};
    struct msghdr packet = {.msg_iov = &bytes, .msg_iovlen = 1};
    struct stat status;

    for (unsigned i = 0; i < count; i++)
        fds[i] = descriptor((unsigned)take(1));
    if (count > 0) {
        rights.header = (struct cmsghdr){CMSG_LEN(sizeof(int) * count), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&rights.header), fds, sizeof(int) * count);
        packet.msg_control = &rights;
        packet.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    }
    if (message->op == PORTUS_OP_ENGAGE && count > 0 && take(1) < 230 && message->value != VICTIM &&
        message->value < FILES && agent.state->file[message->value] == 0) {
        fstat(fds[0], &status);
        message->size = file->inode = status.st_ino;
        atomic_store(&file->owner, session);
        atomic_store(&file->last, 0);
        atomic_store(&file->error, 0);
        atomic_store(&file->closed, take(1) & 1);
        atomic_store(&file->leaseless, take(1) & 1);
        atomic_store(&file->state, PORTUS_FILE_CLAIMED);
    }
    sendmsg(to, &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

/* What it has been sent, away. */
static void listen_to(int from)
{
    struct portus_message message;
    int fds[PORTUS_MESSAGE_FDS];
    unsigned count;

    while (from != 0 && portus_message_receive(from, &message, fds, &count, 0) == 0) {
        if (from == store)
            said[saids++ % SAID] = message.value;
        for (unsigned i = 0; i < count; i++)
            close(fds[i]);
    }
}

static void hang_up(int *end)
{
    if (*end != 0)
        close(*end);
    *end = 0;
}

/* A place among the agent's connections, as let_in() makes it. */
static void connect_client(unsigned which)
{
    struct agent_peer *peer = &agent.state->peer[which];
    int pair[2];

    if (peer->socket == 0) /* hung up by the agent, or new */
        hang_up(&client[which]);
    if (client[which] != 0 || peer->socket != 0)
        return;
    assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0);
    *peer = (struct agent_peer){.socket = pair[0], .pid = (uint32_t)getpid()};
    if (which == 0) { /* the session that is fuzzed */
        peer->session = 1;
        peer->welcomed = true;
        peer->role = PORTUS_ROLE_CLIENT;
    }
    if (agent.state->peers_end <= which)
        agent.state->peers_end = which + 1;
    client[which] = pair[1];
}

static void client_says(void)
{
    static const uint16_t ops[] = {PORTUS_OP_HELLO,   PORTUS_OP_ENGAGE,     PORTUS_OP_ENGAGE, PORTUS_OP_OFF,
                                   PORTUS_OP_ON,      PORTUS_OP_RENAMED,    PORTUS_OP_WELCOME,
                                   PORTUS_OP_STORE_FILE};
    unsigned which = (unsigned)take(1) % CLIENTS;
    struct portus_message message = portus_message_make((enum portus_op)ops[take(1) % (sizeof(ops) / sizeof(ops[0]))]);

    connect_client(which);
    message.value = (uint32_t)number(FILES);
    message.size = number(1 << 20);
    message.flags = (uint32_t)take(1);
    if (take(1) == 255)
        message.version = (uint16_t)take(2);
    if (message.op == PORTUS_OP_HELLO && message.value == PORTUS_ROLE_CLIENT && hellos++ > 0)
        message.value = PORTUS_ROLE_LOOK;
    if (client[which] != 0)
        say(client[which], &message, agent.state->peer[which].session);
    agent_peers_turn(&agent, 0);
    listen_to(client[which]);
}

static void store_says(void)
{
    static const uint16_t ops[] = {PORTUS_OP_WELCOME,      PORTUS_OP_STORE_DONE,  PORTUS_OP_STORE_DONE,
                                   PORTUS_OP_STORE_PULLED, PORTUS_OP_STORE_BYTES, PORTUS_OP_HELLO};
    struct portus_message message = portus_message_make((enum portus_op)ops[take(1) % (sizeof(ops) / sizeof(ops[0]))]);
    int pair[2];

    if (agent.state->store == 0) {
        hang_up(&store);
        assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0);
        agent.state->store = pair[0];
        store = pair[1];
    }
    message.value = take(1) < 200 ? said[take(1) % SAID] : (uint32_t)take(4);
    message.size = number(64);
    message.flags = (uint32_t)take(1);
    message.error = take(1) < 200 ? 0 : -(int32_t)take(4);
    if (message.op == PORTUS_OP_STORE_BYTES)
        message.flags = 0;
    portus_message_send(store, &message, NULL, 0);
    agent.store_looked = agent.store_refused_until = 0;
    agent_store_turn(&agent);
    listen_to(store);
}

static void entry(void)
{
    struct portus_file *file = &control->file[take(1) % FILES];

    if (file == &control->file[VICTIM])
        file++;
    switch (take(1) % 10) {
    case 0:
        atomic_store(&file->last, number(64));
        break;
    case 1:
        atomic_store(&file->reserved_end, number(1 << 20));
        break;
    case 2:
        atomic_store(&file->quiet, (uint32_t)take(1));
        break;
    case 3:
        atomic_store(&file->hurried, (uint32_t)take(1));
        break;
    case 4:
        atomic_store(&file->written, number(1 << 20));
        break;
    case 5:
        atomic_store(&file->state, (uint32_t)take(1));
        break;
    case 6:
        memset(file->path, 'x', sizeof(file->path)); /* no end */
        break;
    case 7:
        atomic_store(&file->error, (uint32_t)take(2));
        break;
    case 8:
        atomic_store(&file->closed, 1);
        break;
    case 9:
        atomic_store(&file->replaces, 1);
        break;
    }
}

static void act(void)
{
    struct portus_session *shared = &control->session[0];
    uint64_t tail = agent.state->session[0].tail;

    switch (take(1) % 20) {
    case 0 ... 5: { /* a record, ready or nearly */
        uint64_t sequence = tail + (take(1) & 3), ring = agent.state->session[0].ring_map - PORTUS_RING_DATA;
        struct portus_record *at = record(sequence);
        at->offset = number(4096);
        at->data = take(1) < 200 ? number(8192) : ring - take(1);
        at->length = (uint32_t)(take(1) < 200 ? number(300) : PORTUS_CHUNK + take(1) - 2);
        at->file = (uint32_t)number(FILES);
        atomic_store(&at->stamp, sequence + (take(1) < 240));
        if (take(1) < 200)
            atomic_store(&shared->head, (sequence + 1) << 1);
        break;
    }
    case 6 ... 7:
        atomic_store(&shared->head, (tail + take(1) % 20) << 1);
        break;
    case 8:
        atomic_store(&shared->head, number(64));
        break;
    case 9 ... 10:
        engage((unsigned)number(FILES), (unsigned)take(1));
        break;
    case 11:
        entry();
        break;
    case 12:
        atomic_store(&shared->wanted, number(1 << 16) << (take(1) & 15));
        for (unsigned i = 0; i < 2 && agent_rings_grow(&agent); i++)
            ;
        break;
    case 13:
        atomic_store(&shared->tail, take(2));
        atomic_store(&shared->claimed, number(64));
        atomic_store(&shared->held, take(1) & 1);
        agent_rings_relieve(&agent);
        break;
    case 14: /* its process has ended */
        if (agent.state->session[0].pidfd != 0)
            close(agent.state->session[0].pidfd);
        agent.state->session[0].pidfd = dup(dead);
        agent_session_leave(&agent, 0);
        break;
    case 15:
        agent_files_broken(&agent);
        agent_store_broken(&agent);
        break;
    case 16 ... 17:
        client_says();
        break;
    case 18:
        store_says();
        break;
    case 19:
        hang_up(take(1) & 1 ? &store : &client[take(1) % CLIENTS]);
        agent_peers_turn(&agent, 0);
        break;
    }
}

static void turn(bool changing)
{
    if (changing)
        atomic_fetch_or(&scribbling, 1);
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        for (unsigned j = 0; j < 40 && agent.ring[i] != NULL && agent_drain(&agent, i); j++)
            ;
    atomic_fetch_and(&scribbling, ~1);
    while (atomic_load(&scribbling) != 0)
        ; /* it may be in the ring, which is unmapped now */
    agent_files_finish(&agent);
    agent.store_looked = 0;
    agent_store_turn(&agent);
    listen_to(store);
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (atomic_load(&control->session[i].state) == PORTUS_SESSION_DYING)
            agent_session_end(&agent, i);
    if (agent.ring[0] == NULL && !ending) /* it has: the next client */
        begin();
}

/* Session 0 stays for the next input, if its client lives: a new one's memory takes long. */
static bool stays(void)
{
    return agent.ring[0] != NULL && atomic_load(&control->session[0].state) == PORTUS_SESSION_ACTIVE;
}

/* Whether a session, or a file, still is there that should not be. */
static bool some_left(void)
{
    for (unsigned i = 0; i < PORTUS_SESSIONS; i++)
        if (i != 1 && !(i == 0 && stays()) && (agent.ring[i] != NULL || agent.state->session[i].ring != 0))
            return true;
    return agent_files_count(&agent, 0) != 1 + (stays() ? agent_files_count(&agent, 1) : 0);
}

/* All go, whatever they have said: so does what the agent has of theirs. */
static void end(void)
{
    ending = true;
    hang_up(&store);
    for (unsigned i = 1; i < CLIENTS; i++)
        hang_up(&client[i]);
    if (!stays() || agent.state->peer[0].deaf)
        hang_up(&client[0]);
    agent_peers_turn(&agent, 0);
    if (agent.ring[0] != NULL && !stays()) {
        if (agent.state->session[0].pidfd != 0)
            close(agent.state->session[0].pidfd);
        agent.state->session[0].pidfd = dup(dead);
    }
    agent_store_end(&agent);
    assert(agent.state->keeps == 0 && agent.state->store == 0);
    /* A log is no longer than its ring, and each turn goes on. */
    for (unsigned i = 0; i < 2000 + PORTUS_RECORDS / 40 && some_left(); i++) {
        turn(false);
        if (i > PORTUS_RECORDS / 40)
            usleep(1000); /* a file waits for the clock, or for a second for what is not answered */
    }
    assert(!some_left());
    assert(agent_peers_count(&agent) == (agent.state->peer[0].socket != 0));
    assert(agent.state->peer[0].socket == 0 || stays());
    agent_store_end(&agent);
    assert(agent.state->keeps == 0);
    ending = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char now[ROOM + 1];
    bool changing;
    uint8_t kind;

    if (control == NULL)
        once();
    data = bytes, left = size;
    begin();
    engage(0, 6);
    engage(1, 6);
    kind = (uint8_t)take(1);
    changing = kind % 4 == 0;
    hellos = (kind & 0xc0) != 0x40; /* in some there is one ring more: else the time goes into memory */
    while (left > 0) {
        for (unsigned i = 0; i < 4 && left > 0; i++)
            act();
        turn(changing);
    }
    end();
    assert(pread(victim_fd, now, sizeof(now), 0) == ROOM && memcmp(now, victim, ROOM) == 0);
    assert(agent.state->file[VICTIM] != 0 && agent.state->owner[VICTIM] == 2);
    return 0;
}
