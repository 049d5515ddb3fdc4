/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h -- how much memory this process may still take
 */
#ifndef PORTUS_MEMORY_H
#define PORTUS_MEMORY_H

#include <stdint.h>

/*
 * Bytes that can be had before the machine or a cgroup above this process is
 * out of memory: the least of MemAvailable and, for each cgroup with a limit
 * (v1 and v2), limit - use + page cache that can be dropped. UINT64_MAX when
 * nothing is known (no /proc).
 */
uint64_t portus_memory_headroom(void);

#endif
