/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c -- TLS 1.3 with a pre-shared key, and messages over it
 *
 * No certificates: a store has none, so nothing but the key can let anybody in, and a
 * client takes no session that the key did not make. A name that a store does not know gets
 * a key that nobody has: so it is refused as a wrong key is, and names cannot be tried out.
 *
 * Hostile until it is proven, and careful after: a message that claims more than there may
 * be behind it ends the connection before anything is allocated for it.
 */
#include "transport/wire.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/futex.h"
#include "common/log.h"

#define DEAD_MS 30000   /* TCP: sent and not acknowledged for so long */
#define KEPT (2u << 20) /* of a buffer, when it is empty */
#define SECRET_LABEL "EXPORTER-portus-session"

struct buffer {
    uint8_t *bytes;
    size_t from, to, room;
};

struct wire {
    int fd;
    SSL *ssl;
    bool proven, wants_write, broken;
    const struct keys *keys; /* a server's, until it is proven */
    struct key key;          /* who it is */
    char peer[80];
    uint64_t heard;
    struct buffer out;
    struct buffer in; /* the message that comes */
};

/* ---- keys ---- */

static SSL_SESSION *make_session(SSL *ssl, const uint8_t secret[KEY_BYTES])
{
    static const unsigned char aes[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session == NULL || cipher == NULL ||
        SSL_SESSION_set1_master_key(session, secret, KEY_BYTES) != 1 ||
        SSL_SESSION_set_cipher(session, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **name, size_t *length,
                   SSL_SESSION **session)
{
    struct wire *wire = SSL_get_app_data(ssl);

    *session = make_session(ssl, wire->key.secret);
    *name = (const unsigned char *)wire->key.name;
    *length = strlen(wire->key.name);
    return *session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *name, size_t length, SSL_SESSION **session)
{
    struct wire *wire = SSL_get_app_data(ssl);
    const struct key *key = NULL;
    char text[KEY_NAME];
    uint8_t nobodys[KEY_BYTES];

    if (length < sizeof(text)) {
        memcpy(text, name, length);
        text[length] = '\0';
        key = strlen(text) == length ? keys_find(wire->keys, text) : NULL;
    }
    if (key != NULL) {
        wire->key = *key;
        *session = make_session(ssl, key->secret);
    } else {
        memset(&wire->key, 0, sizeof(wire->key));
        if (RAND_bytes(nobodys, sizeof(nobodys)) != 1)
            return 0;
        *session = make_session(ssl, nobodys);
    }
    return *session != NULL;
}

static SSL_CTX *context(bool server)
{
    static SSL_CTX *contexts[2];
    SSL_CTX *made = contexts[server];

    if (made != NULL)
        return made;
    made = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (made == NULL || SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256") != 1) {
        SSL_CTX_free(made);
        return NULL;
    }
    SSL_CTX_set_options(made, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_num_tickets(made, 0);
    SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS);
    if (server) {
        SSL_CTX_set_psk_find_session_callback(made, find_key);
    } else {
        SSL_CTX_set_psk_use_session_callback(made, use_key);
        SSL_CTX_set_verify(made, SSL_VERIFY_PEER, NULL); /* nobody whom we know has one */
    }
    contexts[server] = made;
    return made;
}

/* ---- making one ---- */

static void name_peer(struct wire *wire)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    char host[64], port[8];

    if (getpeername(wire->fd, (struct sockaddr *)&address, &length) == 0 &&
        getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(wire->peer, sizeof(wire->peer), "%s port %s", host, port);
    else
        strcpy(wire->peer, "unknown");
}

static void tune(int fd)
{
    const int on = 1, idle = 10, between = 5, times = 4, dead = DEAD_MS;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead, sizeof(dead));
}

static int make(struct wire **out, int fd, const struct keys *keys, const struct key *key)
{
    struct wire *wire = calloc(1, sizeof(*wire));
    SSL_CTX *made = context(keys != NULL);

    if (wire != NULL && made != NULL)
        wire->ssl = SSL_new(made);
    if (wire == NULL || wire->ssl == NULL || SSL_set_fd(wire->ssl, fd) != 1) {
        if (wire != NULL)
            SSL_free(wire->ssl);
        free(wire);
        close(fd);
        ERR_clear_error();
        return -ENOMEM;
    }
    wire->fd = fd;
    wire->keys = keys;
    if (key != NULL)
        wire->key = *key;
    SSL_set_app_data(wire->ssl, wire);
    if (keys != NULL)
        SSL_set_accept_state(wire->ssl);
    else
        SSL_set_connect_state(wire->ssl);
    tune(fd);
    name_peer(wire);
    wire->heard = portus_now();
    *out = wire;
    return 0;
}

int wire_accept(struct wire **out, const struct keys *keys, int fd)
{
    return make(out, fd, keys, NULL);
}

void wire_close(struct wire *wire)
{
    if (wire == NULL)
        return;
    if (wire->proven && !wire->broken)
        SSL_shutdown(wire->ssl); /* what it says goes if it can go now */
    SSL_free(wire->ssl);
    ERR_clear_error();
    close(wire->fd);
    free(wire->out.bytes);
    free(wire->in.bytes);
    explicit_bzero(&wire->key, sizeof(wire->key));
    free(wire);
}

/* What has become of a call of OpenSSL. */
static int outcome(struct wire *wire, int result)
{
    int saved = errno;
    unsigned long reason;

    switch (SSL_get_error(wire->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        wire->wants_write = false;
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        wire->wants_write = true;
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        wire->broken = true;
        return -ECONNRESET;
    case SSL_ERROR_SYSCALL:
        wire->broken = true;
        ERR_clear_error();
        return saved == ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET;
    default:
        wire->broken = true;
        reason = ERR_peek_error();
        ERR_clear_error();
        if (ERR_GET_REASON(reason) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
            return -ECONNRESET;
        /* A store's alert; or what of a client's proof is not right. */
        if (!wire->proven && (ERR_GET_REASON(reason) >= SSL_AD_REASON_OFFSET ||
                              ERR_GET_REASON(reason) == SSL_R_BINDER_DOES_NOT_VERIFY ||
                              ERR_GET_REASON(reason) == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM))
            return -EKEYREJECTED;
        return -EPROTO;
    }
}

int wire_prove(struct wire *wire)
{
    int result;

    if (wire->proven)
        return 0;
    ERR_clear_error();
    errno = 0;
    result = SSL_do_handshake(wire->ssl);
    if (result != 1)
        return outcome(wire, result);
    wire->heard = portus_now();
    /* One without the key would be none at all. */
    if (!SSL_session_reused(wire->ssl) || wire->key.name[0] == '\0') {
        wire->broken = true;
        return -EKEYREJECTED;
    }
    wire->proven = true;
    wire->keys = NULL;
    explicit_bzero(wire->key.secret, sizeof(wire->key.secret));
    return 0;
}

static int wait_for(int fd, short events, uint64_t until)
{
    for (;;) {
        uint64_t now = portus_now();
        struct pollfd event = {.fd = fd, .events = events};
        int result;

        if (now >= until)
            return -ETIMEDOUT;
        result = poll(&event, 1, (int)((until - now) / 1000000) + 1);
        if (result > 0)
            return 0;
        if (result < 0 && errno != EINTR)
            return -errno;
    }
}

static int connect_one(struct wire **out, const struct addrinfo *address, const struct key *key,
                       uint64_t until)
{
    struct wire *wire = NULL;
    int error = 0, fd;
    socklen_t size = sizeof(error);

    fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, address->ai_addr, address->ai_addrlen) < 0) {
        error = errno == EINPROGRESS ? wait_for(fd, POLLOUT, until) : -errno;
        if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0)
            error = -error;
    }
    if (error != 0) {
        close(fd);
        return error;
    }
    error = make(&wire, fd, NULL, key);
    if (error != 0)
        return error;
    while ((error = wire_prove(wire)) == -EAGAIN) {
        error = wait_for(fd, wire->wants_write ? POLLOUT : POLLIN, until);
        if (error != 0)
            break;
    }
    if (error != 0) {
        wire_close(wire);
        return error;
    }
    *out = wire;
    return 0;
}

int wire_connect(struct wire **out, const struct portus_address *address, const struct key *key,
                 int milliseconds)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list, *one;
    unsigned count = 0;
    int error;

    error = getaddrinfo(address->host, address->port, &hints, &list);
    if (error != 0)
        return error == EAI_SYSTEM && errno != 0 ? -errno : -EADDRNOTAVAIL;
    for (one = list; one != NULL; one = one->ai_next)
        count++;
    error = -EADDRNOTAVAIL;
    for (one = list; one != NULL; one = one->ai_next) {
        uint64_t part = (uint64_t)milliseconds * 1000000 / count;

        error = connect_one(out, one, key, portus_now() + part);
        if (error == 0 || error == -EKEYREJECTED)
            break;
    }
    freeaddrinfo(list);
    return error;
}

int wire_descriptor(const struct wire *wire)
{
    return wire->fd;
}

short wire_events(const struct wire *wire, bool *ready)
{
    *ready = wire->proven && SSL_pending(wire->ssl) > 0;
    if (!wire->proven)
        return wire->wants_write ? POLLOUT : POLLIN;
    return wire_queued(wire) > 0 ? POLLIN | POLLOUT : POLLIN;
}

const char *wire_name(const struct wire *wire)
{
    return wire->key.name;
}

uint32_t wire_owner(const struct wire *wire)
{
    return wire->key.owner;
}

const char *wire_peer(const struct wire *wire)
{
    return wire->peer;
}

int wire_secret(const struct wire *wire, uint8_t secret[WIRE_SECRET])
{
    return SSL_export_keying_material(wire->ssl, secret, WIRE_SECRET, SECRET_LABEL,
                                      strlen(SECRET_LABEL), NULL, 0, 0) == 1
               ? 0
               : -EIO;
}

uint64_t wire_heard(const struct wire *wire)
{
    return wire->heard;
}

/* ---- sending ---- */

/* Room for so many more bytes at the end. */
static int make_room(struct buffer *buffer, size_t bytes)
{
    uint8_t *more;
    size_t room;

    if (buffer->from == buffer->to)
        buffer->from = buffer->to = 0;
    if (buffer->to + bytes <= buffer->room)
        return 0;
    if (buffer->from > 0) {
        memmove(buffer->bytes, buffer->bytes + buffer->from, buffer->to - buffer->from);
        buffer->to -= buffer->from;
        buffer->from = 0;
    }
    if (buffer->to + bytes <= buffer->room)
        return 0;
    room = (buffer->to + bytes + 65535) & ~(size_t)65535;
    more = realloc(buffer->bytes, room);
    if (more == NULL)
        return -ENOMEM;
    buffer->bytes = more;
    buffer->room = room;
    return 0;
}

/* What was large once need not stay so. */
static void trim(struct buffer *buffer)
{
    if (buffer->from != buffer->to || buffer->room <= KEPT)
        return;
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

int wire_begin(struct wire *wire, const struct portus_message *message, size_t length, void **to)
{
    struct portus_message head = *message;
    int error;

    if (length > WIRE_BYTES)
        return -EMSGSIZE;
    if (wire->broken)
        return -ECONNRESET;
    error = make_room(&wire->out, sizeof(head) + length);
    if (error != 0)
        return error;
    head.magic = PORTUS_PROTO_MAGIC;
    head.version = head.version != 0 ? head.version : PORTUS_PROTO_VERSION;
    head.length = (uint32_t)(sizeof(head) + length);
    memcpy(wire->out.bytes + wire->out.to, &head, sizeof(head));
    *to = wire->out.bytes + wire->out.to + sizeof(head);
    wire->out.to += sizeof(head) + length;
    return 0;
}

void wire_take_back(struct wire *wire, size_t length)
{
    wire->out.to -= sizeof(struct portus_message) + length;
}

int wire_send(struct wire *wire, const struct portus_message *message, const void *bytes,
              size_t length)
{
    void *to;
    int error = wire_begin(wire, message, length, &to);

    if (error != 0)
        return error;
    if (length > 0)
        memcpy(to, bytes, length);
    error = wire_flush(wire);
    return error == -EAGAIN ? 0 : error;
}

int wire_flush(struct wire *wire)
{
    struct buffer *out = &wire->out;

    while (out->from < out->to) {
        size_t length = out->to - out->from;
        int result;

        if (wire->broken)
            return -ECONNRESET;
        ERR_clear_error();
        errno = 0;
        result = SSL_write(wire->ssl, out->bytes + out->from,
                           (int)(length < 1u << 20 ? length : 1u << 20));
        if (result <= 0)
            return outcome(wire, result);
        out->from += (size_t)result;
    }
    trim(out);
    return wire->broken ? -ECONNRESET : 0;
}

size_t wire_queued(const struct wire *wire)
{
    return wire->out.to - wire->out.from;
}

/* ---- receiving ---- */

/* Reads until the message that comes has so many bytes. */
static int fill(struct wire *wire, size_t bytes)
{
    struct buffer *in = &wire->in;
    int error = make_room(in, bytes - in->to), result;

    while (error == 0 && in->to < bytes) {
        ERR_clear_error();
        errno = 0;
        result = SSL_read(wire->ssl, in->bytes + in->to, (int)(bytes - in->to));
        if (result <= 0) {
            error = outcome(wire, result);
        } else {
            in->to += (size_t)result;
            wire->heard = portus_now();
        }
    }
    return error;
}

int wire_receive(struct wire *wire, struct portus_message *message, const void **bytes,
                 size_t *length)
{
    struct buffer *in = &wire->in;
    struct portus_message head;
    int error;

    if (wire->broken)
        return -ECONNRESET;
    if (in->from != 0) { /* the last one was given out */
        in->from = in->to = 0;
        trim(in);
    }
    error = fill(wire, sizeof(head));
    if (error != 0)
        return error;
    memcpy(&head, in->bytes, sizeof(head));
    if (head.magic != PORTUS_PROTO_MAGIC || head.length < sizeof(head) ||
        head.length > sizeof(head) + WIRE_BYTES)
        error = -EPROTO;
    else if (head.version != PORTUS_PROTO_VERSION)
        error = -EPROTONOSUPPORT;
    else
        error = fill(wire, head.length);
    if (error == -EPROTO)
        wire->broken = true;
    if (error == -EPROTONOSUPPORT)
        *message = head;
    if (error != 0)
        return error;
    in->from = in->to;
    *message = head;
    *bytes = in->bytes + sizeof(head);
    *length = head.length - sizeof(head);
    return 0;
}
