/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.c -- which machine this is
 *
 * A file system's UUID tells machines apart already, but where disks were copied, or the
 * kernel does not tell it. So the store of several machines mixes both. Where there is no
 * /etc/machine-id, as in many containers, the UUID stands alone: a host's name would change
 * with each container, and make other files of the same.
 */
#include "common/host.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void host_id(uint8_t id[16])
{
    static const char digits[] = "0123456789abcdef";
    char text[32];
    int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof(text)) : -1;

    if (fd >= 0)
        close(fd);
    memset(id, 0, 16);
    for (ssize_t i = 0; i < length && length == sizeof(text); i++) {
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;

        if (digit == NULL) {
            memset(id, 0, 16);
            return;
        }
        id[i / 2] = (uint8_t)(id[i / 2] << 4 | (digit - digits));
    }
}

void host_mix(uint8_t file_system[16], const uint8_t machine[16])
{
    for (unsigned i = 0; i < 16; i++)
        file_system[i] ^= machine[i];
}
