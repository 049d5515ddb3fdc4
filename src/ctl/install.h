/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * install.h -- where the shim and the agent of this portusctl are
 */
#ifndef PORTUS_CTL_INSTALL_H
#define PORTUS_CTL_INSTALL_H

#include <limits.h>
#include <stdbool.h>

/*
 * Looks beside this program and in ../lib/portus from there (`make install`).
 * Returns whether it was found; out is its absolute path then.
 */
bool install_shim(char out[PATH_MAX]);

/* The same for the agent; PORTUS_AGENT, if not "", is the one place to look at. */
bool install_agent(char out[PATH_MAX], const char *portus_agent);

#endif
