/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sniff.c -- whether a file's first bytes are those of a checkpoint
 *
 * Only to decide whether capturing is worth while: a wrong guess costs speed, never
 * bytes. Sources: APPNOTE.TXT 4.3.7 (zip: torch.save, DCP, numpy.savez), CPython's
 * Lib/pickle.py (PROTO opcode, protocols 2 to 5), safetensors' format description,
 * numpy.lib.format, HDF5 file format specification III.
 */
#include "format/sniff.h"

#include <stdint.h>
#include <string.h>

#define SAFETENSORS_HEADER_MAX 100000000u

const char *portus_sniff(const void *head, size_t length)
{
    const uint8_t *byte = head;
    uint64_t header = 0;

    if (length >= 4 && memcmp(byte, "PK\3\4", 4) == 0)
        return "zip";
    if (length >= 2 && byte[0] == 0x80 && byte[1] >= 2 && byte[1] <= 5)
        return "pickle";
    if (length >= 6 && memcmp(byte, "\x93NUMPY", 6) == 0)
        return "numpy";
    if (length >= 8 && memcmp(byte, "\x89HDF\r\n\x1a\n", 8) == 0)
        return "hdf5";
    if (length >= 10 && byte[8] == '{' && byte[9] == '"') {
        for (int i = 7; i >= 0; i--)
            header = header << 8 | byte[i];
        if (header >= 2 && header <= SAFETENSORS_HEADER_MAX)
            return "safetensors";
    }
    return NULL;
}
