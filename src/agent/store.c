/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store.c -- hands files that are whole to the store
 *
 * What the store has not pulled while a file was saved (pull.c) it reads from the file.
 * Of one that has just become an ordinary one a name is kept (O_PATH, which is not open).
 * Once nobody has it open for writing any more it is opened for reading, and a read lease
 * is taken on that description; a copy of it goes to portusd. As long as the lease is held
 * nobody has changed the file. Who wants to write waits in open until portusd has let the
 * file go, which it does at once: with another opener the next save could not be captured.
 * That version is not kept then: a newer one is coming.
 *
 * All of this is beside the drain and may fail: a checkpoint is in its own file already.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/state.h"
#include "common/address.h"
#include "common/futex.h"
#include "common/listing.h"
#include "common/log.h"
#include "common/message.h"
#include "common/trace.h"

#define LEASE_NS 10000000000ull /* a file that is still written then is none for the store */
#define CANCEL_NS 100000000ull  /* who waits in open need not wait longer */
#define TOLD_NS 10000000000ull  /* a rename is not kept longer for a store that may have ended */
#define LOOK_NS 5000000ull      /* between two tries to get a lease, to connect */
#define REFUSED_NS 60000000000ull
#define SILENT_NS                                                                                  \
    10000000000ull /* after which it is asked whether it is alive; and so long again */
#define MESSAGES_A_TURN 64

#define RENAMES 128 /* of the places at most: files are more important */

enum {
    KEEP_NONE,
    KEEP_WAITS,
    KEEP_RENAMED, /* to be told */
    KEEP_TOLD,    /* of a rename; it has not answered */
    KEEP_LEASED,
    KEEP_SENT,
    KEEP_CANCELLED,
};

bool agent_store_configured(const struct agent *agent)
{
    return agent->state->env.store[0] != '\0';
}

static void forget(struct agent *agent, struct agent_keep *keep)
{
    bool drafted = keep->drafted, sent = keep->state == KEEP_RENAMED || keep->state == KEEP_TOLD;
    int fd = keep->fd;

    keep->state = KEEP_NONE;
    keep->drafted = false;
    keep->fd = 0;
    if (sent)
        agent_discard(agent, fd);
    else
        close(fd); /* the store's copy keeps no lease: it has one only through us */
    agent->state->keeps--;
    atomic_store(&agent->control->keeping, agent->state->keeps);
    if (drafted)
        agent_pull_drop(agent, keep->id);
}

/* Gives the lease up first: a description that the store still has would keep it. */
static void let_go(struct agent *agent, struct agent_keep *keep)
{
    if (keep->state >= KEEP_LEASED)
        fcntl(keep->fd, F_SETLEASE, F_UNLCK);
    forget(agent, keep);
}

static void disconnect(struct agent *agent)
{
    int fd = agent->state->store;

    agent->state->store = 0;
    agent->state->store_ready = false;
    atomic_store(&agent->control->store, 0);
    agent->store_ends = false;
    if (fd != 0)
        close(fd);
    agent_pull_forget(agent);
}

/* The store cannot be had: one line, and it is not tried for a while. */
void agent_store_give_up(struct agent *agent, const char *why)
{
    agent_error(agent, "%s: %s: checkpoints are saved, but not kept there", agent->state->env.store,
                why);
    agent->store_refused_until = portus_now() + REFUSED_NS;
    agent->store_since = 0;
    agent->store_wanted = false;
    agent_store_end(agent);
}

void agent_store_silent(struct agent *agent)
{
    struct pollfd event = {.fd = agent->state->store};

    if (poll(&event, 1, 0) == 1 && (event.revents & POLLHUP))
        return; /* it was killed, and is heard of in its turn */
    agent_store_give_up(agent, "portusd does not answer");
}

static struct agent_keep *place(struct agent *agent)
{
    for (unsigned i = 0; i < AGENT_KEEPS; i++)
        if (agent->state->keep[i].state == KEEP_NONE)
            return &agent->state->keep[i];
    return NULL;
}

static void put(struct agent *agent, struct agent_keep *keep, int fd, uint32_t state)
{
    keep->fd = fd;
    keep->id = keep->drafted ? keep->id : ++agent->state->keep_ids;
    keep->since = portus_now();
    keep->again = false;
    keep->state = state;
    agent->state->keeps++;
    atomic_store(&agent->control->keeping, agent->state->keeps);
}

void agent_store_resume(struct agent *agent)
{
    /* The last worker may have been killed between an entry and the count. */
    agent->state->keeps = 0;
    for (unsigned i = 0; i < AGENT_KEEPS; i++)
        agent->state->keeps += agent->state->keep[i].state != KEEP_NONE;
    atomic_store(&agent->control->keeping, agent->state->keeps);
    agent->store_since = agent->state->store != 0 ? portus_now() : 0;
    agent_pull_forget(agent); /* what was pulled and claimed meanwhile is not known */
    agent_store_broken(agent);
}

void agent_store_end(struct agent *agent)
{
    disconnect(agent);
    for (unsigned i = 0; i < AGENT_KEEPS; i++)
        if (agent->state->keep[i].state != KEEP_NONE)
            let_go(agent, &agent->state->keep[i]);
}

/*
 * Only what its program has closed: a killed one leaves a beginning, which is no version,
 * and least of all the newest.
 */
void agent_store_take(struct agent *agent, unsigned number, int fd, const struct agent_keep *known)
{
    struct portus_file *file = &agent->control->file[number];
    struct agent_keep *keep;
    int name;

    if (!agent_store_configured(agent) || portus_now() < agent->store_refused_until ||
        atomic_load(&file->error) != 0 || atomic_load(&file->closed) == 0 ||
        !agent->state->leased[number])
        return; /* then it has no draft either */
    keep = place(agent);
    if (keep == NULL)
        log_warn("the store is %d files behind: %.*s is not kept there", AGENT_KEEPS,
                 PORTUS_FILE_PATH - 1, file->path);
    name = keep != NULL ? agent_reopen(fd, O_PATH) : -1;
    if (name < 0) {
        if (known->drafted)
            agent_pull_drop(agent, known->id);
        return;
    }
    *keep = *known;
    keep->directory = file->directory[0];
    keep->device = file->device;
    keep->inode = file->inode;
    put(agent, keep, name, KEEP_WAITS);
}

void agent_store_renamed(struct agent *agent, int fd)
{
    struct agent_keep *keep = NULL;
    unsigned waiting = 0;

    for (unsigned i = 0; i < AGENT_KEEPS; i++)
        waiting +=
            agent->state->keep[i].state == KEEP_RENAMED || agent->state->keep[i].state == KEEP_TOLD;
    if (agent_store_configured(agent) && portus_now() >= agent->store_refused_until)
        keep = waiting < RENAMES ? place(agent) : NULL;
    if (waiting == RENAMES && !agent->store_behind)
        log_warn("the store is %u renames behind: some versions keep their old paths", waiting);
    agent->store_behind = waiting == RENAMES;
    if (keep == NULL) {
        agent_discard(agent, fd);
    } else {
        keep->drafted = keep->kept = false;
        put(agent, keep, fd, KEEP_RENAMED);
    }
}

/* 0 or a negative errno; -ESTALE: there is nothing to tell. */
static int tell(struct agent *agent, struct agent_keep *keep, enum portus_op op, uint32_t flags,
                bool with)
{
    struct portus_message message = portus_message_make(op);
    int fds[2] = {keep->fd}, listed = -1;
    unsigned count = with ? 1 : 0;
    bool lists = agent_store_shared(agent) || agent_store_far(agent);
    int error;

    message.value = keep->id;
    message.size = keep->directory;
    message.flags = flags;
    /* A store of several users has no right to look where its files are. */
    if (lists && (flags & PORTUS_STORE_LAST))
        listed = fds[count++] = listing_beside(keep->fd);
    if (lists && op == PORTUS_OP_STORE_RENAMED)
        listed = fds[0] = listing_below(keep->fd);
    if (listed < 0 && op == PORTUS_OP_STORE_RENAMED && lists) {
        log_info("a rename is not told to the store: %s", strerror(-listed));
        return -ESTALE;
    }
    if (count == 2 && listed < 0)
        count = 1; /* no state that the directory could be restored to, then */
    error = portus_message_send(agent->state->store, &message, fds, count);
    if (listed >= 0)
        close(listed);
    return error;
}

void agent_store_broken(struct agent *agent)
{
    for (unsigned i = 0; i < AGENT_KEEPS && agent->state->keeps > 0; i++) {
        struct agent_keep *keep = &agent->state->keep[i];
        if ((keep->state != KEEP_LEASED && keep->state != KEEP_SENT) ||
            fcntl(keep->fd, F_GETLEASE) == F_RDLCK)
            continue;
        if (keep->state == KEEP_LEASED ||
            tell(agent, keep, PORTUS_OP_STORE_CANCEL, 0, false) != 0) {
            let_go(agent, keep);
        } else {
            keep->state = KEEP_CANCELLED;
            keep->since = portus_now();
        }
    }
}

/* Its portusd has ended, or ends: the next one gets it, but only once, as it may be the cause. */
static bool again(struct agent_keep *keep)
{
    if ((keep->state != KEEP_SENT && keep->state != KEEP_TOLD) || keep->again)
        return false;
    keep->again = true;
    keep->state = keep->state == KEEP_TOLD ? KEEP_RENAMED : KEEP_LEASED;
    return true;
}

static void done(struct agent *agent, const struct portus_message *message)
{
    for (unsigned i = 0; i < AGENT_KEEPS; i++) {
        struct agent_keep *keep = &agent->state->keep[i];
        if ((keep->state < KEEP_SENT && keep->state != KEEP_TOLD) || keep->id != message->value)
            continue;
        if (keep->state == KEEP_TOLD) {
            forget(agent, keep);
            return;
        }
        if (message->error == -ECANCELED && again(keep)) {
            agent->store_ends = true;
            return;
        }
        if (portus_trace_on())
            agent_trace_kept(keep, message->size, message->error);
        let_go(agent, keep);
        if (message->error == -ENOSPC && !agent->store_full)
            agent_error(agent, "%s is full: a checkpoint is saved, but not kept there",
                        agent->state->env.store);
        else if (message->error != 0 && message->error != -ENOSPC && message->error != -ENOENT &&
                 message->error != -ESTALE && message->error != -ECANCELED)
            agent_error(agent, "%s: %s: a checkpoint is saved, but not kept there",
                        agent->state->env.store, strerror(-message->error));
        agent->store_full = message->error == -ENOSPC;
        *(message->error == 0 ? &agent->state->kept : &agent->state->not_kept) += 1;
        if (message->error == 0)
            log_debug("the store has it: commit %llu", (unsigned long long)message->size);
        else
            log_debug("the store has not kept it: %s", strerror(-message->error));
        return;
    }
    agent_pull_sealed(agent, message->value, message->error);
}

static void hear(struct agent *agent)
{
    struct portus_message message;
    bool welcomed;
    int error = 0;

    for (unsigned turn = 0; turn < MESSAGES_A_TURN; turn++) {
        error = portus_message_receive_bytes(agent->state->store, &message, NULL, 0, 0);
        if (error != 0)
            break;
        agent->store_heard = portus_now();
        agent->store_asked = 0;
        if (message.op == PORTUS_OP_WELCOME && message.error < 0) {
            agent_store_give_up(agent, agent_store_far(agent) ? portus_address_why(message.error)
                                       : message.error == -EUSERS
                                           ? "portusd has too many connections"
                                           : strerror(-message.error));
            return;
        }
        if (message.op == PORTUS_OP_WELCOME && message.error == 0) {
            agent->state->store_ready = true;
            agent->store_first = agent_store_far(agent) ? message.value : 0;
            atomic_store(&agent->control->store,
                         message.flags & (PORTUS_WELCOME_STORE | PORTUS_WELCOME_DURABLE));
            agent->store_since = 0;
            agent->store_wanted = false;
        } else if (message.op == PORTUS_OP_STORE_DONE) {
            done(agent, &message);
        } else if (message.op == PORTUS_OP_STORE_PULLED) {
            agent_pull_heard(agent, message.value, message.size);
        } else {
            error = -EPROTO;
            break;
        }
    }
    if (error == -EAGAIN || error == 0)
        return;
    /* What it had not answered for is kept, or not, nobody knows: another is asked. */
    welcomed = agent->state->store_ready;
    disconnect(agent);
    for (unsigned i = 0; i < AGENT_KEEPS; i++) {
        struct agent_keep *keep = &agent->state->keep[i];
        if ((keep->state >= KEEP_SENT || keep->state == KEEP_TOLD) && !again(keep))
            let_go(agent, keep);
    }
    if (agent_store_far(agent) && !welcomed)
        agent_store_give_up(agent, "portus-carrier cannot be had, or has died");
    else if (agent_store_far(agent)) {
        agent->store_first++; /* the next of several, or the same once more */
        agent->store_looked = portus_now();
        agent_error(agent, "%s: the connection is gone: another is tried for the next checkpoint",
                    agent->state->env.store);
    } else if (error != -ECONNRESET)
        agent_store_give_up(agent, "portusd is of another version");
    else
        agent_error(agent, "%s: portusd is gone: another is started for the next checkpoint",
                    agent->state->env.store);
}

/* Whether nobody of this job is writing another file of its directory. */
static bool is_last(const struct agent *agent, const struct agent_keep *keep)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        const struct portus_file *file = &agent->control->file[i];
        uint32_t state = atomic_load(&file->state);
        if (state != PORTUS_FILE_FREE && state != PORTUS_FILE_DONE &&
            file->directory[0] == keep->directory)
            return false;
    }
    for (unsigned i = 0; i < AGENT_KEEPS; i++) {
        const struct agent_keep *other = &agent->state->keep[i];
        if (other != keep && (other->state == KEEP_WAITS || other->state == KEEP_LEASED) &&
            other->directory == keep->directory)
            return false;
    }
    return true;
}

/* Whether it is being saved again: to open it now would break that lease. */
static bool is_live(const struct agent *agent, const struct agent_keep *keep)
{
    for (unsigned i = 0; i < PORTUS_FILES; i++) {
        const struct portus_file *file = &agent->control->file[i];
        uint32_t state = atomic_load(&file->state);
        if (state != PORTUS_FILE_FREE && state != PORTUS_FILE_DONE && file->inode == keep->inode &&
            file->device == keep->device)
            return true;
    }
    return false;
}

/*
 * 0, and the file is open for reading and leased; or a negative errno. A lease is taken on a
 * description that is noted already: with one that nobody knows of, as the worker was killed,
 * who wants to write would wait for the kernel to take it away.
 */
static int lease(const struct agent *agent, struct agent_keep *keep)
{
    int fd, name = keep->fd, error;

    fd = agent_reopen(keep->fd, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    keep->fd = fd;
    if (fcntl(fd, F_SETSIG, SIGRTMIN) < 0 || fcntl(fd, F_SETOWN, agent->state->keeper) < 0 ||
        fcntl(fd, F_SETLEASE, F_RDLCK) < 0) {
        error = -errno;
        keep->fd = name;
        close(fd);
        return error;
    }
    keep->state = KEEP_LEASED;
    close(name);
    return 0;
}

/* Whether nobody has changed it since it was drained; with its lease. */
static bool unchanged(const struct agent_keep *keep)
{
    struct stat status;

    return fstat(keep->fd, &status) == 0 && (uint64_t)status.st_size == keep->size &&
           status.st_mtim.tv_sec == keep->mtime.tv_sec &&
           status.st_mtim.tv_nsec == keep->mtime.tv_nsec;
}

static void send_file(struct agent *agent, struct agent_keep *keep)
{
    uint32_t flags = is_last(agent, keep) ? PORTUS_STORE_LAST : 0;

    if (keep->drafted && !agent_pull_has(agent, keep))
        return;
    if (keep->drafted)
        flags |= PORTUS_STORE_PULLED;
    if (keep->kept)
        flags |= PORTUS_STORE_KEPT;
    if (tell(agent, keep, PORTUS_OP_STORE_FILE, flags, true) != 0)
        return;
    keep->drafted = false; /* the store's now */
    keep->state = KEEP_SENT;
}

static void tell_renamed(struct agent *agent, struct agent_keep *keep, uint64_t now)
{
    int error = tell(agent, keep, PORTUS_OP_STORE_RENAMED, 0, true);

    if (error == -ESTALE)
        forget(agent, keep);
    if (error != 0)
        return;
    keep->state = KEEP_TOLD;
    keep->since = now;
}

/* One step of one file's way. */
static void step(struct agent *agent, struct agent_keep *keep, uint64_t now)
{
    int error = 0;

    if (keep->state == KEEP_WAITS) {
        error = is_live(agent, keep) ? -ESTALE : lease(agent, keep);
        if (error == -ESTALE || (error != 0 && error != -EAGAIN) ||
            (error != 0 && now - keep->since > LEASE_NS)) {
            if (error != -ESTALE)
                log_info("a file is not kept in the store: %s", strerror(-error));
            forget(agent, keep);
            return;
        }
        if (error == 0 && (keep->drafted || keep->kept) && !unchanged(keep)) {
            bool drafted = keep->drafted;
            keep->drafted = keep->kept = false;
            if (drafted)
                agent_pull_drop(agent, keep->id);
        }
    }
    if (!agent->state->store_ready)
        return;
    if (keep->state == KEEP_RENAMED)
        tell_renamed(agent, keep, now);
    else if (keep->state == KEEP_TOLD && now - keep->since > TOLD_NS)
        forget(agent, keep);
    else if (keep->state == KEEP_LEASED && !agent->store_ends)
        send_file(agent, keep);
    /* Somebody waits in open, and portusd may be waiting for its disk: the lease goes without
     * it, which at worst has the next save not captured. */
    else if (keep->state == KEEP_CANCELLED && now - keep->since > CANCEL_NS)
        let_go(agent, keep);
}

/* Whether it answers at all: one that has been stopped would be waited for without an end. */
static void ask(struct agent *agent, uint64_t now)
{
    struct portus_message message = portus_message_make(PORTUS_OP_STORE_ALIVE);

    if (!agent->state->store_ready || now - agent->store_heard < SILENT_NS)
        return;
    if (agent->store_asked == 0) {
        agent->store_asked = now;
        portus_message_send(agent->state->store, &message, NULL, 0);
    } else if (now - agent->store_asked > SILENT_NS) {
        agent_store_give_up(agent, "portusd does not answer");
    }
}

bool agent_store_turn(struct agent *agent)
{
    struct agent_state *state = agent->state;
    bool pulls = false;
    uint64_t now;

    if (state->keeps == 0 && state->store == 0 && !agent->store_wanted)
        return false;
    if (state->store != 0)
        hear(agent);
    if (state->store_ready)
        pulls = agent_pull_turn(agent);
    now = portus_now();
    if ((state->keeps == 0 && !agent->store_wanted && !pulls) ||
        now - agent->store_looked < LOOK_NS)
        return state->keeps > 0 || pulls;
    agent->store_looked = now;
    if (agent->store_wanted && now < agent->store_refused_until)
        agent->store_wanted = false;
    else if (state->store == 0)
        agent_store_dial(agent);
    else if (!state->store_ready && agent_store_late(agent))
        agent_store_give_up(agent, "portusd does not answer");
    else
        ask(agent, now);
    for (unsigned i = 0; i < AGENT_KEEPS && state->keeps > 0; i++)
        if (state->keep[i].state != KEEP_NONE)
            step(agent, &state->keep[i], now);
    return state->keeps > 0 || pulls || agent->store_wanted;
}
