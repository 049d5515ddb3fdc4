/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sniff.h -- whether a file's first bytes are those of a checkpoint
 */
#ifndef PORTUS_FORMAT_SNIFF_H
#define PORTUS_FORMAT_SNIFF_H

#include <stddef.h>

/*
 * The name of the format that a file begins with, or NULL if it is none that
 * checkpoints have. length: of what is known of it; 8 to 16 bytes are enough.
 */
const char *portus_sniff(const void *head, size_t length);

#endif
