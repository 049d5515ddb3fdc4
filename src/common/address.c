/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.c -- the name of a store on another machine
 *
 * Only its form: whether a host is there says who connects. Allocates nothing, as the shim
 * reads the environment, too.
 */
#include "common/address.h"

#include <errno.h>
#include <string.h>

static const char *const schemes[] = {
    [PORTUS_SCHEME_TCP] = "tcp://",
    [PORTUS_SCHEME_RDMA] = "rdma://",
};

#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

/* The one that a name begins with; SCHEMES: none. */
static unsigned scheme_of(const char *name)
{
    unsigned i = 0;

    while (i < SCHEMES && strncmp(name, schemes[i], strlen(schemes[i])) != 0)
        i++;
    return i;
}

bool portus_address_is(const char *name)
{
    return scheme_of(name) < SCHEMES;
}

static bool is_host(const char *text, size_t length, bool brackets)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    for (size_t i = 0; i < length; i++)
        if (strchr(plain, text[i]) == NULL && !(brackets && (text[i] == ':' || text[i] == '%')))
            return false;
    return length > 0 && length < PORTUS_ADDRESS_HOST && text[0] != '-';
}

static bool is_port(const char *text, size_t length)
{
    unsigned value = 0;

    for (size_t i = 0; i < length && i < 6; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = 10 * value + (unsigned)(text[i] - '0');
    }
    return length > 0 && length < 6 && value > 0 && value < 65536;
}

static bool parse(struct portus_address *address, const char *text, size_t length)
{
    const char *host, *end = text + length, *host_end, *port = PORTUS_ADDRESS_PORT;
    size_t port_bytes = strlen(port);
    unsigned scheme = scheme_of(text);
    bool brackets;

    if (scheme == SCHEMES || length >= sizeof(address->text))
        return false;
    memset(address, 0, sizeof(*address));
    memcpy(address->text, text, length);
    address->scheme = (enum portus_scheme)scheme;
    host = text + strlen(schemes[scheme]);
    brackets = *host == '[';
    host += brackets;
    host_end = memchr(host, brackets ? ']' : ':', (size_t)(end - host));
    if (brackets && host_end == NULL)
        return false;
    if (host_end == NULL)
        host_end = end;
    text = host_end + (brackets ? 1 : 0);
    if (text < end) {
        if (*text != ':')
            return false;
        port = text + 1;
        port_bytes = (size_t)(end - port);
    }
    if (!is_host(host, (size_t)(host_end - host), brackets) || !is_port(port, port_bytes))
        return false;
    memcpy(address->host, host, (size_t)(host_end - host));
    memcpy(address->port, port, port_bytes);
    return true;
}

bool portus_address_get(struct portus_address *address, const char *list, unsigned number)
{
    for (; number > 0; number--) {
        list = strchr(list, ',');
        if (list == NULL)
            return false;
        list++;
    }
    return parse(address, list, strcspn(list, ","));
}

unsigned portus_address_count(const char *list)
{
    struct portus_address address;
    unsigned count = 1;

    for (const char *comma = list; (comma = strchr(comma, ',')) != NULL; comma++)
        count++;
    for (unsigned i = 0; i < count && count <= PORTUS_ADDRESSES; i++)
        if (!portus_address_get(&address, list, i))
            return 0;
    return count <= PORTUS_ADDRESSES ? count : 0;
}

const char *portus_address_why(int error)
{
    switch (error) {
    case -EKEYREJECTED:
        return "it does not know this key, or does not know it itself (PORTUS_KEY)";
    case -EPROTO:
        return "what answers there is no portusd, or none that speaks TLS 1.3";
    case -EPROTONOSUPPORT:
        return "it is of another version: install the same one on both machines";
    case -EADDRNOTAVAIL:
        return "there is no such host";
    case -ECONNREFUSED:
        return "nobody listens there";
    case -ECONNRESET:
        return "it hung up";
    case -ETIMEDOUT:
        return "it does not answer";
    case -EUSERS:
        return "it has as many connections of this key as it allows";
    case -ENOKEY:
        return "a store on another machine wants a key (PORTUS_KEY=FILE)";
    case -EPROTOTYPE:
        return "this build knows no such transport";
    case -ENODEV:
        return "there is no RDMA device (tcp:// works without)";
    default:
        return strerror(-error);
    }
}
