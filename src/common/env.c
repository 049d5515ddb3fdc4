/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env.c -- reads the environment by the table env.def, and matches globs
 *
 * Not here: what a value means.
 *
 * A default is set by the same code as a value, so that the table says it in the
 * user's words. Globs are matched by own code: fnmatch(3) depends on the locale
 * and may allocate, and this runs in a program's open(2).
 */
#include "common/env.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/address.h"
#include "common/log.h"

enum kind { kind_choice, kind_size, kind_number, kind_text, kind_globs, kind_level, kind_store };

const struct portus_env_variable portus_env_variables[] = {
#define VARIABLE(name, kind, field, fallback, values, doc) {name, values, fallback, doc},
#include "common/env.def"
#undef VARIABLE
};

const unsigned portus_env_variable_count =
    sizeof(portus_env_variables) / sizeof(portus_env_variables[0]);

static const struct {
    enum kind kind;
    size_t field;
} places[] = {
#define VARIABLE(name, kind, field, fallback, values, doc)                                         \
    {kind_##kind, offsetof(struct portus_env, field)},
#include "common/env.def"
#undef VARIABLE
};

#define PREFIX "PORTUS_"
#define NAME_MAX_BYTES 31 /* a longer one is like none of ours */
#define LIKE 2            /* changed letters of a name that is taken for a slip */

/* The number of the word of length bytes at text among words ("auto|off"), or -1. */
static int word_number(const char *words, const char *text, size_t length)
{
    for (int number = 0;; number++) {
        size_t word = strcspn(words, "|[");

        if (word == length && memcmp(words, text, length) == 0)
            return number;
        if (words[word] != '|')
            return -1;
        words += word + 1;
    }
}

/* Digits and, if units is set, perhaps one letter, up to end; 0 if that is not all there is. */
static bool parse_number(const char *text, const char *end, bool units, uint64_t *value)
{
    uint64_t number = 0;
    unsigned shift = 0;

    if (units && end > text) {
        switch (end[-1]) {
        case 'G':
        case 'g':
            shift += 10;
            /* fall through */
        case 'M':
        case 'm':
            shift += 10;
            /* fall through */
        case 'K':
        case 'k':
            shift += 10;
            end--;
        }
    }
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *text - '0', &number))
            return false;
    }
    *value = number << shift;
    return *value >> shift == number;
}

/* Whether value is among ranges: "0|16M..". */
static bool in_ranges(const char *ranges, uint64_t value)
{
    for (;;) {
        size_t range = strcspn(ranges, "|"), least = range;
        bool open = range > 2 && memcmp(ranges + range - 2, "..", 2) == 0;
        uint64_t bound;

        if (open)
            least -= 2;
        if (parse_number(ranges, ranges + least, true, &bound) &&
            (value == bound || (open && value > bound)))
            return true;
        if (ranges[range] == '\0')
            return false;
        ranges += range + 1;
    }
}

static bool copy_text(char *field, const char *text)
{
    size_t length = strlen(text);

    if (length >= PORTUS_ENV_TEXT)
        return false;
    memcpy(field, text, length + 1);
    return true;
}

#define UNIX "unix:"

/* The longest path of a socket is that of its address, with the NUL. */
static bool names_store(const char *text)
{
    size_t scheme = strlen(UNIX);

    if (portus_address_is(text))
        return portus_address_count(text) > 0;
    if (strncmp(text, UNIX, scheme) != 0)
        return text[0] == '\0' || text[0] == '/';
    return text[scheme] == '/' &&
           strlen(text + scheme) < sizeof(((struct sockaddr_un *)NULL)->sun_path);
}

static bool copy_globs(char *field, const char *text, const char *fallback)
{
    size_t given = strlen(fallback);

    if (strncmp(text, "+:", 2) != 0 || given == 0)
        return copy_text(field, strncmp(text, "+:", 2) == 0 ? text + 2 : text);
    /* "+:*.x" becomes the default and then ":*.x" */
    if (given + strlen(text + 1) >= PORTUS_ENV_TEXT)
        return false;
    memcpy(field, fallback, given);
    return copy_text(field + given, text + 1);
}

#define JSON ",json"

/* Sets the variable's field; false, and nothing is changed, if the value is wrong. */
static bool set(struct portus_env *env, unsigned variable, const char *text)
{
    const struct portus_env_variable *known = &portus_env_variables[variable];
    void *field = (char *)env + places[variable].field;
    const char *colon;
    uint64_t number;
    size_t length;
    bool json;
    int word;

    switch (places[variable].kind) {
    case kind_choice:
        word = word_number(known->values, text, strlen(text));
        if (word >= 0)
            *(int *)field = word;
        return word >= 0;
    case kind_size:
    case kind_number:
        if (!parse_number(text, text + strlen(text), places[variable].kind == kind_size, &number) ||
            !in_ranges(known->values, number))
            return false;
        *(uint64_t *)field = number;
        return true;
    case kind_text:
        return copy_text(field, text);
    case kind_store:
        return names_store(text) && copy_text(field, text);
    case kind_globs:
        return copy_globs(field, text, known->fallback);
    case kind_level:
        colon = strchr(text, ':');
        length = colon != NULL ? (size_t)(colon - text) : strlen(text);
        json =
            length > strlen(JSON) && strncmp(text + length - strlen(JSON), JSON, strlen(JSON)) == 0;
        word = word_number(known->values, text, json ? length - strlen(JSON) : length);
        if (word < 0 || (colon != NULL && colon[1] == '\0') ||
            !copy_text(env->log_file, colon != NULL ? colon + 1 : ""))
            return false;
        *(int *)field = word;
        env->log_json = json;
        return true;
    }
    return false;
}

/* Says the right values in words: "0|16M.." is "0, 16M or more". */
static void warn_wrong(const struct portus_env_variable *known, enum kind kind, const char *text)
{
    char values[200];
    size_t length = 0;
    const char *is_not = strchr(known->values, '|') != NULL ? "one of " : "";

    for (const char *c = known->values; *c != '\0' && length < sizeof(values) - 10; c++) {
        const char *word = NULL;

        if (*c == '|') {
            word = ", ";
        } else if (strncmp(c, "..", 2) == 0) {
            word = " or more";
            c++;
        }
        if (word == NULL) {
            values[length++] = *c;
        } else {
            memcpy(values + length, word, strlen(word));
            length += strlen(word);
        }
    }
    values[length] = '\0';

    if (kind == kind_text || kind == kind_globs)
        log_warn("%s is longer than %d bytes: \"%s\" is used", known->name, PORTUS_ENV_TEXT - 1,
                 kind == kind_text ? known->fallback : "the default");
    else
        log_warn("%s=%.80s is not %s%s: %s is used", known->name, text, is_not, values,
                 known->fallback[0] != '\0' ? known->fallback : "none");
}

/* Letters to change, add or leave out to make one name of the other; at most NAME_MAX_BYTES each.
 */
static unsigned distance(const char *name, size_t length, const char *other)
{
    unsigned row[NAME_MAX_BYTES + 1], width = strlen(other);

    for (unsigned j = 0; j <= width; j++)
        row[j] = j;
    for (unsigned i = 0; i < length; i++) {
        unsigned diagonal = row[0];

        row[0] = i + 1;
        for (unsigned j = 0; j < width; j++) {
            unsigned best = diagonal + (name[i] != other[j]);

            diagonal = row[j + 1];
            if (best > row[j] + 1)
                best = row[j] + 1;
            if (best > diagonal + 1)
                best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[width];
}

static void warn_unknown(const char *name, size_t length)
{
    /* Read by scripts of ours, and no concern of the programs. */
    static const char *const others[] = {"PORTUS_VENV", "PORTUS_PYTHON", "PORTUS_DEMO_DIR"};
    const char *nearest = NULL;
    unsigned best = LIKE + 1;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strlen(others[i]) == length && memcmp(others[i], name, length) == 0)
            return;
    for (unsigned i = 0; i < portus_env_variable_count; i++) {
        const char *known = portus_env_variables[i].name;
        unsigned away;

        if (strlen(known) == length && memcmp(known, name, length) == 0)
            return;
        away = length <= NAME_MAX_BYTES ? distance(name, length, known) : best;
        if (away < best) {
            best = away;
            nearest = known;
        }
    }
    if (nearest != NULL)
        log_warn("%.*s is not known to this version: ignored (is %s meant?)", (int)length, name,
                 nearest);
    else
        log_warn("%.*s is not known to this version: ignored", (int)length, name);
}

int portus_env_load(struct portus_env *env)
{
    bool wrong[sizeof(places) / sizeof(places[0])] = {false};
    int count = 0;

    memset(env, 0, sizeof(*env));
    for (unsigned i = 0; i < portus_env_variable_count; i++) {
        const char *text = getenv(portus_env_variables[i].name);
        bool textual = places[i].kind == kind_text || places[i].kind == kind_globs ||
                       places[i].kind == kind_store;

        set(env, i, portus_env_variables[i].fallback);
        /* Empty is as unset, but where it is a value. */
        if (text != NULL && (text[0] != '\0' || textual) && !set(env, i, text)) {
            wrong[i] = true;
            count++;
        }
    }

    /* Nothing is written before all is read: who wants errors only gets no warning. */
    if (env->log_level < PORTUS_LOG_WARN)
        return count;
    for (unsigned i = 0; i < portus_env_variable_count; i++)
        if (wrong[i])
            warn_wrong(&portus_env_variables[i], places[i].kind,
                       getenv(portus_env_variables[i].name));
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        if (strncmp(*entry, PREFIX, strlen(PREFIX)) == 0)
            warn_unknown(*entry, strcspn(*entry, "="));
    return count;
}

/* Compares c with the set at *glob, behind its "["; moves *glob behind the "]". */
static bool match_set(const char **glob, const char *end, char c, bool *valid)
{
    const unsigned char *g = (const unsigned char *)*glob, *last = (const unsigned char *)end;
    unsigned char byte = c;
    bool negated = g < last && (*g == '!' || *g == '^'), found = false;

    g += negated;
    /* A "]" that comes first is a member. */
    for (bool first = true; g < last && (first || *g != ']'); first = false) {
        unsigned char low = *g++, high;

        if (low == '\\' && g < last)
            low = *g++;
        high = low;
        if (last - g >= 2 && g[0] == '-' && g[1] != ']') {
            high = g[1];
            g += 2;
            if (high == '\\' && g < last)
                high = *g++;
        }
        found |= low <= byte && byte <= high;
    }
    *valid = g < last;
    *glob = (const char *)g + 1;
    return found != negated;
}

/*
 * Whether the glob from glob to end matches text; bytes, not characters, and a
 * "*" takes slashes too. After a mismatch only the last "*" need be made longer:
 * what an earlier one could take in its place, that one takes.
 */
static bool match_glob(const char *glob, const char *end, const char *text)
{
    const char *star = NULL, *taken = NULL;

    while (*text != '\0' || glob < end) {
        const char *next = glob;
        bool same = false, valid;

        if (next < end && *next == '*') {
            star = ++glob;
            taken = text;
            continue;
        }
        if (next < end && *text != '\0') {
            switch (*next++) {
            case '?':
                same = true;
                break;
            case '[':
                same = match_set(&next, end, *text, &valid);
                if (!valid) { /* no "]": an ordinary byte */
                    next = glob + 1;
                    same = *text == '[';
                }
                break;
            case '\\':
                if (next < end)
                    next++;
                /* fall through */
            default:
                same = *text == next[-1];
            }
        }
        if (same) {
            glob = next;
            text++;
        } else if (star != NULL && *taken != '\0') {
            glob = star;
            text = ++taken;
        } else {
            return false;
        }
    }
    return true;
}

bool portus_env_match(const char *globs, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;

    for (;;) {
        size_t length = strcspn(globs, ":");
        bool whole = memchr(globs, '/', length) != NULL;

        if (length > 0 && match_glob(globs, globs + length, whole ? path : name))
            return true;
        if (globs[length] == '\0')
            return false;
        globs += length + 1;
    }
}
