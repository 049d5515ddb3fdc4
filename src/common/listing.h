/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listing.h -- files and what is known of them, from an agent to a store that may not look
 *
 * In a sealed memfd: nobody changes it any more, and to read it never blocks. Made by the
 * agent, as its user; whatever it says concerns that user's versions alone.
 */
#ifndef PORTUS_LISTING_H
#define PORTUS_LISTING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LISTING_MOST (16u << 20) /* bytes */
#define LISTING_FILES 16384
#define LISTING_HANDLE 128

struct listing_entry {
    uint64_t size;
    int64_t mtime; /* ns since 1970 */
    uint8_t file_system[16];
    uint32_t handle_type, handle_bytes; /* 0: not asked for */
    uint8_t handle[LISTING_HANDLE];
    uint32_t path_bytes; /* with the NUL; the path follows, then zeros to a multiple of 8 */
    uint32_t zero;
};

/* What a file is, whatever its name: its file system's UUID and its handle. 0 or a negative
 * errno. fd may be a name only (O_PATH). */
int listing_handle(int fd, struct listing_entry *entry);

/* That, as text: "@" and hexadecimal digits. */
#define LISTING_TEXT (2 * (16 + 4 + LISTING_HANDLE) + 2)
void listing_text(const struct listing_entry *entry, char text[LISTING_TEXT]);

/* Where the file behind fd is, as the kernel says. 0 or a negative errno. */
int listing_path(int fd, char *path, size_t size);

/* The directory that it is in, opened; path receives its name. A descriptor, or a negative errno.
 */
int listing_parent(int fd, char path[PATH_MAX + 1]);

/* Of all files in the directory of the file behind fd, without handles. A descriptor, or a
 * negative errno. */
int listing_beside(int fd);

/* Of what is behind fd: the file, or all in and below the directory, of one name each. */
int listing_below(int fd);

/* Of bytes that came from elsewhere: they are not looked at. */
int listing_make(const void *bytes, size_t length);

/* ---- reading one that somebody has sent ---- */

/* Whether fd is one that nobody can change: asks nothing of it that could block. */
bool listing_sealed(int fd);

struct listing {
    char *bytes;
    size_t length;
};

int listing_load(struct listing *listing, int fd);
void listing_free(struct listing *listing);

/* The entry at *at, and *at moved behind it; NULL: there is none, or no right one. */
const struct listing_entry *listing_next(const struct listing *listing, size_t *at,
                                         const char **path);

#endif
