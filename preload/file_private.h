/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_private.h -- what file.c, capture.c and live.c share; nobody else includes it
 */
#ifndef PORTUS_PRELOAD_FILE_PRIVATE_H
#define PORTUS_PRELOAD_FILE_PRIVATE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "file.h"
#include "shim.h"

/* The engaged file's entry in the control segment. */
static inline struct portus_file *file_shared(const struct file *file)
{
    return &shim.writer.link.control->file[file->number];
}

/* With the file's lock held: */

/* Releases it if it is engaged, and waits. 0 or a negative errno, which the caller returns. */
int file_release_locked(struct file *file);

/* The same for a caller that cannot: the file's next call does, or one that publishes. */
void file_release_untold(struct file *file);
/* The same of all that are this inode, by whichever descriptor. */
void files_release_inode(uint64_t device, uint64_t inode);

/*
 * Whether fd still is the file that was engaged. If not, it was closed and opened
 * again without our seeing it, and is forgotten.
 */
bool file_same(struct file *file, int fd);

/* Raises the size to what the kernel has; with the lock held. */
void file_grown_locked(struct file *file, int fd);

#endif
