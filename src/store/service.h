/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * service.h -- what a service manager says to portusd, and hears from it
 *
 * Nothing of it happens where none has started portusd.
 */
#ifndef PORTUS_STORE_SERVICE_H
#define PORTUS_STORE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Reads what the environment says, and takes it away from children. A socket that listens is
 * put into *listener, otherwise that stays. -EINVAL: what was passed is none, with a line. */
int service_begin(int *listener);

/* Whether standard error goes to the journal. */
bool service_journal(void);

/* Sends a line like READY=1, or several. Never waits. */
void service_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says that this process goes on, when it is time to; how often it wants to be called, ns
 * (UINT64_MAX: never). */
uint64_t service_alive(void);

#endif
