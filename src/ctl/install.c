// SPDX-License-Identifier: BSD-3-Clause
/*
 * install.c -- where the shim and the agent of this portusctl are
 *
 * Found from this program's own place, so that a tree works wherever it was
 * copied to. No search path: another version's shim would only confuse.
 */
#include "ctl/install.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool find(char out[PATH_MAX], const char *name)
{
    static const char *const places[] = {"", "../lib/portus/"};
    char self[PATH_MAX], path[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (length <= 0)
        return false;
    self[length] = '\0';
    *(strrchr(self, '/') + 1) = '\0';
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s%s%s", self, places[i], name);
        if (realpath(path, out) != NULL)
            return true;
    }
    return false;
}

bool install_shim(char out[PATH_MAX])
{
    return find(out, "libportus_shim.so");
}

bool install_agent(char out[PATH_MAX], const char *portus_agent)
{
    if (portus_agent[0] != '\0')
        return realpath(portus_agent, out) != NULL;
    return find(out, "portus-agent");
}
