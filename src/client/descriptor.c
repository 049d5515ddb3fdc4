/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor.c -- descriptors of ours in a program's table: out of its way, and known
 */
#include "client/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct portus_lock portus_descriptors;
void (*portus_descriptor_told)(int fd, bool ours);

int portus_descriptor_copy(int fd)
{
    int high;

    portus_lock(&portus_descriptors);
    high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, PORTUS_HIGH_DESCRIPTOR);
    if (high < 0)
        high = -errno;
    else if (portus_descriptor_told != NULL)
        portus_descriptor_told(high, true);
    portus_unlock(&portus_descriptors);
    return high;
}

int portus_descriptor_raise(int fd)
{
    int high = portus_descriptor_copy(fd);

    syscall(SYS_close, fd);
    return high;
}

void portus_descriptor_close(int *fd)
{
    if (*fd < 0)
        return;
    portus_lock(&portus_descriptors);
    if (portus_descriptor_told != NULL)
        portus_descriptor_told(*fd, false);
    syscall(SYS_close, *fd);
    portus_unlock(&portus_descriptors);
    *fd = -1;
}
