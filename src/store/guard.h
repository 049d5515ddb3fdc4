/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard.h -- memory whose access may raise SIGBUS: a bad block, a file that was cut
 *
 *     sigjmp_buf here;
 *
 *     if (sigsetjmp(here, 0) != 0)
 *         return guard_address() ...;      the access failed
 *     guard_enter(&here);
 *     ... the access: no lock, no allocation ...
 *     guard_leave();
 *
 * Guards do not nest. Each thread has its own.
 */
#ifndef PORTUS_STORE_GUARD_H
#define PORTUS_STORE_GUARD_H

#include <setjmp.h>
#include <stdint.h>

/* Catches SIGBUS from now on; what is raised outside a guard goes to the handler before. */
int guard_install(void);

void guard_enter(sigjmp_buf *here);
void guard_leave(void);

/* After a failed access: the address that could not be read or written. */
uintptr_t guard_address(void);

#endif
