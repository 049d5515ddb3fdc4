/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * key.c -- reads and makes pre-shared keys
 *
 * A file that others may read is refused: what is in it is no secret then. The number
 * that a user's versions belong to is made of the name, so that it stays the same however
 * the store's file is sorted; two names of one number are refused.
 */
#include "transport/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/log.h"

#define BLANKS " \t\r\n"
#define FILE_MOST (4u << 20)

uint32_t key_owner(const char *name)
{
    uint64_t hash = portus_hash(PORTUS_HASH_EMPTY, name, strlen(name));

    return KEY_OWNERS | (uint32_t)((hash ^ hash >> 32) & 0x7ffffffe);
}

bool key_name_right(const char *name)
{
    static const char right[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@";
    size_t length = strlen(name);

    return length > 0 && length < KEY_NAME && strspn(name, right) == length;
}

static bool parse_secret(uint8_t secret[KEY_BYTES], const char *text)
{
    static const char digits[] = "0123456789abcdef";

    if (strlen(text) != 2 * KEY_BYTES)
        return false;
    for (unsigned i = 0; i < 2 * KEY_BYTES; i++) {
        const char *digit = strchr(digits, text[i] | (text[i] >= 'A' ? 0x20 : 0));

        if (digit == NULL)
            return false;
        secret[i / 2] = (uint8_t)(secret[i / 2] << 4 | (digit - digits));
    }
    return true;
}

static int read_line(struct keys *keys, char *line, const char *path, unsigned number)
{
    char *rest, *name, *secret;
    struct key key = {0}, *more;

    line[strcspn(line, "#")] = '\0';
    name = strtok_r(line, BLANKS, &rest);
    if (name == NULL)
        return 0;
    secret = strtok_r(NULL, BLANKS, &rest);
    if (!key_name_right(name) || secret == NULL || !parse_secret(key.secret, secret) ||
        strtok_r(NULL, BLANKS, &rest) != NULL) {
        log_error("%s:%u: no key: a line is a name and %d hexadecimal digits (portusctl key makes "
                  "one)",
                  path, number, 2 * KEY_BYTES);
        return -EINVAL;
    }
    strcpy(key.name, name);
    key.owner = key_owner(name);
    for (size_t i = 0; i < keys->count; i++)
        if (keys->key[i].owner == key.owner) {
            log_error("%s:%u: %s has a line already, or shares its number with %s: choose another "
                      "name",
                      path, number, name, keys->key[i].name);
            return -EINVAL;
        }
    more = realloc(keys->key, (keys->count + 1) * sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    keys->key = more;
    more[keys->count++] = key;
    explicit_bzero(&key, sizeof(key));
    return 0;
}

/* Root may have put it there for this user. */
static int check(FILE *file, const char *path)
{
    struct stat status;

    if (fstat(fileno(file), &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode) || status.st_size > FILE_MOST) {
        log_error("%s: is no file of keys", path);
        return -EINVAL;
    }
    if ((status.st_mode & 077) != 0) {
        log_error("%s: others may read or write it: chmod 600 it, and make a new key if they may "
                  "have read this one",
                  path);
        return -EACCES;
    }
    if (status.st_uid != geteuid() && status.st_uid != 0) {
        log_error("%s: belongs to another user: it must be this user's own", path);
        return -EACCES;
    }
    return 0;
}

int keys_load(struct keys *keys, const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    unsigned number = 0;
    size_t room = 0;
    int error;

    *keys = (struct keys){0};
    if (file == NULL) {
        error = -errno;
        log_error("%s: %s", path, strerror(errno));
        return error;
    }
    error = check(file, path);
    while (error == 0 && getline(&line, &room, file) >= 0)
        error = read_line(keys, line, path, ++number);
    if (error == 0 && ferror(file)) {
        error = -EIO;
        log_error("%s: cannot be read", path);
    }
    if (error == 0 && keys->count == 0) {
        error = -EINVAL;
        log_error("%s: has no key in it (portusctl key makes one)", path);
    }
    if (line != NULL)
        explicit_bzero(line, room);
    free(line);
    fclose(file);
    if (error != 0)
        keys_free(keys);
    return error;
}

void keys_free(struct keys *keys)
{
    if (keys->key != NULL)
        explicit_bzero(keys->key, keys->count * sizeof(*keys->key));
    free(keys->key);
    *keys = (struct keys){0};
}

const struct key *keys_find(const struct keys *keys, const char *name)
{
    for (size_t i = 0; i < keys->count; i++)
        if (strcmp(keys->key[i].name, name) == 0)
            return &keys->key[i];
    return NULL;
}

int key_make(const char *name, const char *path)
{
    uint8_t secret[KEY_BYTES];
    char line[KEY_NAME + 2 * KEY_BYTES + 3];
    int length, fd, error = 0;

    if (!key_name_right(name))
        return -EINVAL;
    if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
        return -EIO;
    length = snprintf(line, sizeof(line), "%s ", name);
    for (unsigned i = 0; i < KEY_BYTES; i++)
        length += sprintf(line + length, "%02x", secret[i]);
    line[length++] = '\n';
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        error = -errno;
    else if (write(fd, line, (size_t)length) != length || fsync(fd) < 0)
        error = errno != 0 ? -errno : -EIO;
    if (fd >= 0 && close(fd) < 0 && error == 0)
        error = -errno;
    if (fd >= 0 && error != 0)
        unlink(path);
    explicit_bzero(secret, sizeof(secret));
    explicit_bzero(line, sizeof(line));
    return error;
}
