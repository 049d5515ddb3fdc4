/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool_tape.h -- two backends of a pool's memory: one records what is done, one undoes it
 */
#ifndef POOL_TAPE_H
#define POOL_TAPE_H

#include "pool_image.h"

/* ---- what an operation did ---- */

enum { STORE, FLUSH, FENCE };

struct event {
    int kind;
    uint64_t offset;
    uint32_t length;
    size_t bytes; /* where they stand in the log */
};

static struct {
    struct event *events;
    size_t count, room;
    char *bytes;
    size_t used, bytes_room;
    char *base;
} tape;

static void (*tape_watch)(void); /* called after each event: by who reads meanwhile */

static void record(int kind, const char *at, size_t length, const char *bytes)
{
    if (tape.count == tape.room) {
        tape.room = tape.room * 2 + 64;
        tape.events = realloc(tape.events, tape.room * sizeof(*tape.events));
    }
    if (bytes != NULL && tape.used + length > tape.bytes_room) {
        tape.bytes_room = (tape.used + length) * 2;
        tape.bytes = realloc(tape.bytes, tape.bytes_room);
    }
    tape.events[tape.count++] =
        (struct event){kind, at == NULL ? 0 : at - tape.base, length, tape.used};
    if (bytes != NULL) {
        memcpy(tape.bytes + tape.used, bytes, length);
        tape.used += length;
    }
    if (tape_watch != NULL)
        tape_watch();
}

static void tape_copy(void *self, char *to, const void *from, size_t length)
{
    image_copy(NULL, to, from, length);
    record(STORE, to, length, to);
}

static uint32_t tape_copy_crc(void *self, char *to, const void *from, size_t length, uint32_t crc)
{
    crc = image_copy_crc(NULL, to, from, length, crc);
    record(STORE, to, length, to);
    return crc;
}

static void tape_store(void *self, uint64_t *to, uint64_t value)
{
    *to = value;
    record(STORE, (char *)to, sizeof(value), (char *)to);
}

static void tape_flush(void *self, char *at, size_t length)
{
    record(FLUSH, at, length, NULL);
}

static int tape_fence(void *self)
{
    record(FENCE, NULL, 0, NULL);
    return 0;
}

static const struct map_backend tape_backend = {tape_copy, tape_copy_crc, tape_store, tape_flush,
                                                tape_fence};

/* ---- what a check changes is undone ---- */

static struct {
    struct {
        char *at;
        uint32_t length;
        size_t bytes;
    } steps[4096];
    size_t count, used;
    char bytes[1 << 20];
} undo;

static void undo_note(char *at, size_t length)
{
    assert_true(undo.count < 4096 && undo.used + length <= sizeof(undo.bytes));
    undo.steps[undo.count].at = at;
    undo.steps[undo.count].length = length;
    undo.steps[undo.count++].bytes = undo.used;
    memcpy(undo.bytes + undo.used, at, length);
    undo.used += length;
}

static void undo_all(void)
{
    while (undo.count > 0) {
        undo.count--;
        memcpy(undo.steps[undo.count].at, undo.bytes + undo.steps[undo.count].bytes,
               undo.steps[undo.count].length);
    }
    undo.used = 0;
}

static void undo_copy(void *self, char *to, const void *from, size_t length)
{
    undo_note(to, length);
    image_copy(NULL, to, from, length);
}

static uint32_t undo_copy_crc(void *self, char *to, const void *from, size_t length, uint32_t crc)
{
    undo_note(to, length);
    return image_copy_crc(NULL, to, from, length, crc);
}

static void undo_store(void *self, uint64_t *to, uint64_t value)
{
    undo_note((char *)to, sizeof(value));
    *to = value;
}

static const struct map_backend undo_backend = {undo_copy, undo_copy_crc, undo_store, image_flush,
                                                image_fence};

#endif
