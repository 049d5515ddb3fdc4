/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_load.c -- finds the plug-in that speaks verbs
 *
 * It is looked for where the program is, or is installed to, nowhere else: a search path would load
 * what somebody else has put there. It stays loaded.
 */
#include "transport/verbs.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "portus_rdma.so"

static bool find(char path[PATH_MAX])
{
    static const char *const places[] = {"", "../lib/portus/"};
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 64);
    char *end;

    if (length <= 0)
        return false;
    path[length] = '\0';
    end = strrchr(path, '/') + 1;
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        sprintf(end, "%s%s", places[i], NAME);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

const struct verbs_ops *verbs_load(char *why)
{
    static const struct verbs_ops *ops;
    char path[PATH_MAX];
    const struct verbs_ops *found;
    void *plugin;

    if (ops != NULL)
        return ops;
    if (!find(path)) {
        snprintf(why, VERBS_WHY, "this Portus was built without RDMA: no " NAME " is beside it");
        return NULL;
    }
    plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
        snprintf(why, VERBS_WHY, "%.200s (install rdma-core)", dlerror());
        return NULL;
    }
    found = dlsym(plugin, "portus_verbs");
    if (found == NULL || found->version != VERBS_VERSION) {
        snprintf(why, VERBS_WHY, "%.200s is of another version of Portus", path);
        dlclose(plugin);
        return NULL;
    }
    ops = found;
    return ops;
}
