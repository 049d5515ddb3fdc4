// SPDX-License-Identifier: BSD-3-Clause
/*
 * version.c -- portusctl version: which versions meet here, and where the shim is
 *
 * The agent's is what the running one says; that of the file that would be
 * started is doctor's business.
 */
#include <stdio.h>

#include "ctl/ctl.h"
#include "ctl/install.h"
#include "ctl/look.h"
#include "ctl/text.h"

static struct view view;

int version_main(int argc, char **argv)
{
    struct options options;
    struct portus_link link;
    char shim[PATH_MAX], release[TEXT_ROOM(32)];
    int operand = options_parse(&options, argc, argv, OPTION_JOB), found;

    if (operand < 0)
        return CTL_USAGE;
    if (operand < argc) {
        complain("version: it takes no arguments: see portusctl help version");
        return CTL_USAGE;
    }
    printf("portusctl  %s\n", PORTUS_VERSION);
    found = look_open(&link, options.job, "version");
    if (found == 0) {
        look(&view, link.control);
        portus_link_close(&link);
        printf("agent      %s, process %u\n", text_safe(release, sizeof(release), view.release),
               view.keeper);
    } else if (found > 0) {
        puts("agent      none runs for this user and container");
    }
    printf("shim       %s\n",
           install_shim(shim) ? shim : "not found beside portusctl or in ../lib/portus");
    return found < 0 ? CTL_FAILED : CTL_OK;
}
