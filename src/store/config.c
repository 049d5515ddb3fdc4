/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.c -- reads the file of limits
 *
 * Lines of words; # begins a comment. All wrong lines are named, and with one of them
 * nothing of the file holds: half a configuration is nobody's.
 */
#include "store/config.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "transport/key.h"

#define SESSIONS 64
#define BLANKS " \t\r\n"
#define UNSET (UINT64_MAX - 1)

void config_reset(struct config *config)
{
    free(config->user);
    *config = (struct config){.usual = {CONFIG_NONE, CONFIG_NONE, SESSIONS}};
}

/* A number, with K, M, G or T if it counts bytes; or "none". */
static bool parse(const char *text, bool units, uint64_t *value)
{
    static const char letters[] = "KMGT";
    const char *letter;
    unsigned shift = 0;
    char *end;

    if (strcmp(text, "none") == 0) {
        *value = CONFIG_NONE;
        return true;
    }
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (units && *end != '\0' && (letter = strchr(letters, *end & ~0x20)) != NULL) {
        shift = 10 * (unsigned)(letter - letters + 1);
        end++;
    }
    if (errno != 0 || *end != '\0' || *value > (UNSET - 1) >> shift)
        return false;
    *value <<= shift;
    return true;
}

struct line {
    const char *path;
    unsigned number;
    char *rest; /* of strtok_r */
};

static char *next(struct line *line)
{
    return strtok_r(NULL, BLANKS, &line->rest);
}

static int wrong(const struct line *line, const char *word, const char *what)
{
    log_error("%s:%u: %s%s%s", line->path, line->number, word, word[0] != '\0' ? ": " : "", what);
    return -EINVAL;
}

static int read_limits(struct line *line, struct config_limits *limits)
{
    for (char *word; (word = next(line)) != NULL;) {
        const char *value = next(line);
        uint64_t *field = strcmp(word, "bytes") == 0      ? &limits->bytes
                          : strcmp(word, "objects") == 0  ? &limits->objects
                          : strcmp(word, "sessions") == 0 ? &limits->sessions
                                                          : NULL;
        if (field == NULL)
            return wrong(line, word, "no limit: give bytes, objects or sessions");
        if (value == NULL)
            return wrong(line, word, "how many? give a number or none");
        if (!parse(value, field == &limits->bytes, field))
            return wrong(line, value,
                         field == &limits->bytes ? "no size: give for example 100G, or none"
                                                 : "no number: give for example 1000, or none");
    }
    return 0;
}

/* A user of this machine, or (key) one of others, by the name of a key. */
static int read_user(struct line *line, struct config *config, bool key)
{
    const char *name = next(line);
    struct config_user user = {.limits = {UNSET, UNSET, UNSET}}, *more;
    struct passwd *known;
    uint64_t number;

    if (name == NULL)
        return wrong(line, key ? "key" : "user",
                     key ? "whose? give the name of a key" : "who? give a name or a number");
    if (key && !key_name_right(name))
        return wrong(line, name, "no name of a key");
    if (key) {
        user.uid = key_owner(name);
    } else if (parse(name, false, &number) && number < UINT32_MAX) {
        user.uid = (uint32_t)number;
    } else {
        known = getpwnam(name);
        if (known == NULL)
            return wrong(line, name, "no such user");
        user.uid = known->pw_uid;
    }
    for (size_t i = 0; i < config->users; i++)
        if (config->user[i].uid == user.uid)
            return wrong(line, name, "has a line already");
    if (read_limits(line, &user.limits) != 0)
        return -EINVAL;
    more = realloc(config->user, (config->users + 1) * sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    config->user = more;
    more[config->users++] = user;
    return 0;
}

static int read_line(struct line *line, char *text, struct config *config)
{
    const char *word, *value;

    text[strcspn(text, "#")] = '\0';
    word = strtok_r(text, BLANKS, &line->rest);
    if (word == NULL)
        return 0;
    if (strcmp(word, "user") == 0)
        return read_user(line, config, false);
    if (strcmp(word, "key") == 0)
        return read_user(line, config, true);
    if (strcmp(word, "default") == 0)
        return read_limits(line, &config->usual);
    if (strcmp(word, "keep") != 0)
        return wrong(line, word, "not known: a line begins with keep, default, user or key");
    value = next(line);
    if (value == NULL || !parse(value, false, &config->keep) || config->keep == 0 ||
        config->keep > 1000000 || next(line) != NULL)
        return wrong(line, word, "give one number from 1 to 1000000");
    return 0;
}

static void use_default(uint64_t *field, uint64_t usual)
{
    if (*field == UNSET)
        *field = usual;
}

int config_load(struct config *config, const char *path)
{
    struct config fresh = {0};
    struct line line = {.path = path};
    char *text = NULL;
    size_t room = 0;
    int error = 0;
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        error = -errno;
        log_error("%s: %s", path, strerror(errno));
        return error;
    }
    config_reset(&fresh);
    while (getline(&text, &room, file) >= 0) {
        int this_line;

        line.number++;
        this_line = read_line(&line, text, &fresh);
        error = this_line != 0 ? this_line : error;
    }
    if (ferror(file) && error == 0) {
        error = -EIO;
        log_error("%s: cannot be read", path);
    }
    free(text);
    fclose(file);
    for (size_t i = 0; i < fresh.users; i++) {
        use_default(&fresh.user[i].limits.bytes, fresh.usual.bytes);
        use_default(&fresh.user[i].limits.objects, fresh.usual.objects);
        use_default(&fresh.user[i].limits.sessions, fresh.usual.sessions);
    }
    if (error != 0) {
        free(fresh.user);
        return error;
    }
    free(config->user);
    *config = fresh;
    return 0;
}

const struct config_limits *config_limits(const struct config *config, uint32_t uid)
{
    for (size_t i = 0; i < config->users; i++)
        if (config->user[i].uid == uid)
            return &config->user[i].limits;
    return &config->usual;
}
