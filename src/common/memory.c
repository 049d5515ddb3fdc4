/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c -- how much memory this process may still take
 *
 * Formats: proc(5) meminfo; the kernel's admin-guide/cgroup-v2 (memory.max,
 * memory.current, memory.stat) and cgroup-v1/memory (memory.limit_in_bytes ...).
 */
#include "common/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return -1;
    length = read(fd, text, size - 1);
    close(fd);
    if (length < 0)
        return -1;
    text[length] = '\0';
    return 0;
}

/* The number behind a key at the start of a line, or fallback. */
static uint64_t value_of(const char *text, const char *key, uint64_t fallback)
{
    size_t length = strlen(key);

    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, key, length) == 0)
            return strtoull(line + length, NULL, 10);
    }
    return fallback;
}

struct names {
    const char *root, *limit, *use, *cache;
};

static const struct names v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};
static const struct names v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                "memory.usage_in_bytes", "total_inactive_file "};

static uint64_t group_headroom(const struct names *names, const char *group)
{
    char path[1280], text[8192];
    uint64_t limit, use, cache = 0;

    snprintf(path, sizeof(path), "%s%s/%s", names->root, group, names->limit);
    if (read_text(path, text, sizeof(text)) < 0 || text[0] == 'm') /* "max" */
        return UINT64_MAX;
    limit = strtoull(text, NULL, 10);
    snprintf(path, sizeof(path), "%s%s/%s", names->root, group, names->use);
    if (read_text(path, text, sizeof(text)) < 0)
        return UINT64_MAX;
    use = strtoull(text, NULL, 10);
    snprintf(path, sizeof(path), "%s%s/memory.stat", names->root, group);
    if (read_text(path, text, sizeof(text)) == 0)
        cache = value_of(text, names->cache, 0);
    use = use > cache ? use - cache : 0;
    return limit > use ? limit - use : 0;
}

/* The least headroom of a group and all above it. */
static uint64_t hierarchy_headroom(const struct names *names, char *group)
{
    uint64_t least = UINT64_MAX;
    char *slash;

    for (;;) {
        uint64_t here = group_headroom(names, group);
        if (here < least)
            least = here;
        slash = strrchr(group, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

uint64_t portus_memory_headroom(void)
{
    char text[8192], group[1024];
    uint64_t least = UINT64_MAX;

    if (read_text("/proc/meminfo", text, sizeof(text)) == 0) {
        uint64_t kilobytes = value_of(text, "MemAvailable:", UINT64_MAX / 1024);
        least = kilobytes * 1024;
    }
    if (read_text("/proc/self/cgroup", text, sizeof(text)) < 0)
        return least;
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        const struct names *names = NULL;
        char *path;

        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        path = strchr(line, '/');
        if (path == NULL)
            continue;
        if (strncmp(line, "0::", 3) == 0)
            names = &v2;
        else if (strstr(line, ":memory:") != NULL)
            names = &v1;
        if (names == NULL)
            continue;
        snprintf(group, sizeof(group), "%s", strcmp(path, "/") == 0 ? "" : path);
        uint64_t here = hierarchy_headroom(names, group);
        if (here < least)
            least = here;
    }
    return least;
}
