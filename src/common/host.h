/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h -- which machine this is
 */
#ifndef PORTUS_HOST_H
#define PORTUS_HOST_H

#include <stdint.h>

/* From /etc/machine-id; zeros where there is none. */
void host_id(uint8_t id[16]);

/* What a file system is called in a store of several machines: by its UUID and its machine. */
void host_mix(uint8_t file_system[16], const uint8_t machine[16]);

#endif
