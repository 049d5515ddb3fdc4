/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h -- versions of checkpoint files in persistent memory
 *
 * A pool is one region of memory that outlives its process: a file, a file on
 * fsdax, or a devdax device. It holds objects; an object is one checkpoint file,
 * known by its file system and handle, and has versions. A version is immutable
 * and becomes visible by one atomic store (commit); until then nothing of it
 * counts. What no committed version names is free.
 *
 * One process writes a pool at a time (a lock on the file); others may read it
 * meanwhile. Not for several threads. Functions return 0 or a negative errno and
 * log the exact cause; outputs are set only on success.
 */
#ifndef PORTUS_STORE_POOL_H
#define PORTUS_STORE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_HANDLE_MAX 128 /* MAX_HANDLE_SZ of name_to_handle_at(2) */

struct pool;
struct pool_draft; /* a version that is being written */

/* What a file is, whatever it is called: its file system's UUID and its handle there; and whose
 * its versions are: what two users hand over are two objects. */
struct pool_key {
    uint32_t owner; /* uid */
    uint8_t file_system[16];
    uint32_t handle_type;
    uint32_t handle_bytes;
    uint8_t handle[POOL_HANDLE_MAX];
};

/* What is known of a version beside its bytes. Times are ns since 1970. */
struct pool_attributes {
    const char *path; /* absolute, at the time of commit; NUL-terminated */
    const char *job;  /* may be empty */
    uint64_t size;    /* of the file, bytes: what no write covered reads as zeros */
    int64_t mtime, ctime;
    uint32_t mode, uid, gid;
    bool early;   /* its file has not all of it yet, as far as is known */
    bool settled; /* with this commit all files of its directory that were open are committed */
};

/* A committed version, as others see it; valid until the pool is changed or closed. */
struct pool_version {
    uint64_t number; /* of its commit: unique in the pool, increasing */
    struct pool_key key;
    struct pool_attributes attributes;
    uint64_t stored; /* bytes of the pool that it takes */
    bool pinned;
    bool damaged;   /* some of its bytes are known not to have their CRC */
    uint32_t place; /* slot in the catalogue */
};

/* Makes a pool at path: a new file of size bytes, or a devdax device (size 0: all of it).
 * objects: how many versions it can hold; 0: a fit number. Refuses a file that is not empty and
 * a device that holds a pool (-EEXIST) unless force. A new file gets its name when it is whole. */
int pool_create(const char *path, uint64_t size, uint64_t objects, bool force);

/* Opens; checks all but the versions' bytes; repairs from second copies when writable. A
 * version that is damaged is left out, with a line. -EBUSY: another process writes it;
 * -EUCLEAN: not a pool, or damaged beyond repair, nothing was changed; -EPROTONOSUPPORT: of
 * another layout version. */
int pool_open(struct pool **out, const char *path, bool writable);
void pool_close(struct pool *pool);

struct pool_state {
    uint8_t uuid[16];
    uint64_t size, free, slots, slots_free, newest;
    uint64_t repaired, damaged; /* found when it was opened */
    bool durable;               /* persistent memory, not the page cache */
    const char *kind;           /* "devdax", "fsdax", "file"; "memory" in tests */
};
void pool_look(const struct pool *pool, struct pool_state *state);

/* --- writing --- */

/* A draft ends with pool_commit or pool_drop, before the pool is closed. */
int pool_begin(struct pool *pool, const struct pool_key *key, struct pool_draft **out);

/* Bytes of the draft's file; any order, later ones over earlier ones. -ENOSPC: no room: the
 * draft is as before. */
int pool_write(struct pool_draft *draft, uint64_t offset, const void *data, size_t length);

/*
 * Room for bytes that a device writes into the pool by itself: at pool_landing_at, in memory that
 * pool_memory names (-EOPNOTSUPP: nothing may write there but this process). It is given back by
 * one of the other two, when the device is through with it for certain: pool_landed makes the
 * bytes the draft's, in place of a pool_write. -ENOSPC: pool_write may find room yet.
 */
struct pool_landing;
int pool_memory(const struct pool *pool, void **base, size_t *length);
int pool_land(struct pool *pool, uint32_t owner, uint32_t length, struct pool_landing **out);
void *pool_landing_at(const struct pool_landing *landing);
int pool_landed(struct pool_landing *landing, struct pool_draft *draft, uint64_t offset);
void pool_land_drop(struct pool_landing *landing); /* NULL: nothing */

/* What a file's bytes take, with the list of their extents. */
static inline uint64_t pool_needs(uint64_t bytes)
{
    return bytes + bytes / 1024 + 65536;
}

/* So many bytes more are going to be written: they count as taken in what its owner has left. */
void pool_expect(struct pool_draft *draft, uint64_t bytes);

/* The file was cut or made longer; what is beyond is forgotten. */
int pool_resize(struct pool_draft *draft, uint64_t size);

/* Makes the draft a version, durable when this returns; frees the draft in any case. */
int pool_commit(struct pool_draft *draft, const struct pool_attributes *attributes,
                uint64_t *number);
void pool_drop(struct pool_draft *draft);

/* What becomes of attributes.settled in a rename: it stays if nothing else was committed in
 * either directory since; or as said, by who renames several files. */
enum pool_settling { POOL_SETTLED_AS_IT_WAS, POOL_SETTLED, POOL_UNSETTLED };

/* One atomic commit: the newest version of the object of key has this path now, under a new
 * number. -ENOENT: there is none. */
int pool_rename(struct pool *pool, const struct pool_key *key, const char *path,
                enum pool_settling settling, uint64_t *number);

/* The same of one that was committed early: by now its file has all of it, and is as it says (path,
 * settled, size, mtime, ctime). */
int pool_drained(struct pool *pool, const struct pool_key *key, const struct pool_attributes *file,
                 uint64_t *number);

/* --- looking --- */

/* What one user may have of a pool. */
struct pool_share {
    bool everyone; /* no limits, and all versions */
    uint32_t owner;
    uint64_t bytes, objects; /* at most; objects as in pool_create */
};

/* Whether versions of that owner are the share's. */
static inline bool pool_counts(const struct pool_share *share, uint32_t owner)
{
    return share->everyone || owner == share->owner;
}

/* Calls each(version, argument) for all, in the order of their commits; stops at the first
 * non-zero return and returns it. */
int pool_each(const struct pool *pool, int (*each)(const struct pool_version *, void *),
              void *argument);

/* The same for those after a commit. */
int pool_each_after(const struct pool *pool, uint64_t number,
                    int (*each)(const struct pool_version *, void *), void *argument);

/* The same for those of a share directly in the directory of path, of any job and file system, in
 * any order: of each path (of a job and file system) the newest; or all; or the settled ones,
 * newest first. Takes as long as there are such, however many the pool holds. */
enum pool_which { POOL_NEWEST, POOL_ALL, POOL_WITH_SETTLED };
int pool_each_in(const struct pool *pool, const struct pool_share *share, const char *path,
                 enum pool_which which, int (*each)(const struct pool_version *, void *),
                 void *argument);

/* The version of a number, and the newest one of an object. -ENOENT: there is none. */
int pool_get(const struct pool *pool, uint64_t number, struct pool_version *version);
int pool_newest(const struct pool *pool, const struct pool_key *key, struct pool_version *version);

/* The same for the versions of a share. */
int pool_each_of(const struct pool *pool, const struct pool_share *share,
                 int (*each)(const struct pool_version *, void *), void *argument);

/* Reads length bytes at offset (zeros where nothing was written), checked by CRC. -EUCLEAN:
 * damaged; -ESTALE: it was removed meanwhile; -EINVAL: beyond the file's size. */
int pool_read(const struct pool *pool, const struct pool_version *version, uint64_t offset,
              void *to, size_t length);

/* Where its bytes lie, for a reader of its own: struct portus_pool_extent, valid until the next
 * call of any function here. */
struct portus_pool_extent;
int pool_extents(const struct pool *pool, const struct pool_version *version,
                 const struct portus_pool_extent **extents, uint64_t *count);

/* All of a version's CRCs. */
int pool_verify(const struct pool *pool, const struct pool_version *version);

/* --- keeping --- */

int pool_pin(struct pool *pool, const struct pool_version *version, bool pinned);
int pool_remove(struct pool *pool, const struct pool_version *version);

/* Frees the slots of all versions that were found damaged when it was opened, and of those of
 * which the list of their bytes was lost since. */
int pool_remove_damaged(struct pool *pool);

/* Removes the oldest versions that are superseded and not pinned until bytes and two slots are
 * free; the keep newest of each object and of each path (of a job and file system) stay, and
 * what a directory's last settled commit still needs. A path counts because a file that is
 * renamed over another supersedes it. Returns bytes that are free then, or a negative errno. */
int64_t pool_make_room(struct pool *pool, uint64_t bytes, unsigned keep);

/* What the share's versions take, and the bytes that it may take more (0 without slots for a
 * commit and the rename after it). Versions that are being written count. */
struct pool_usage {
    uint64_t bytes, objects, left;
};
void pool_use(const struct pool *pool, const struct pool_share *share, struct pool_usage *usage);

/* pool_make_room of the versions of a share, until that may take bytes more. */
int64_t pool_make_room_of(struct pool *pool, const struct pool_share *share, uint64_t bytes,
                          unsigned keep);

/* Makes the pool size bytes large, in whole pages; a file is extended or cut. -EBUSY: what lies
 * beyond is not free. */
int pool_set_size(struct pool *pool, uint64_t size);

#endif
