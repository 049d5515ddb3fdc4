/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * view.c -- a pool as one of its users may see it
 *
 *     superblocks | catalogue, twice | bodies | bytes of the extents
 *
 * All places follow from the lengths alone, which each entry knows: so opening a view reads
 * nothing of the pool. A version that was removed since is a free slot.
 */
#include "store/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/copy.h"
#include "store/pool_private.h"

struct item {
    uint64_t number;
    uint64_t body, bytes; /* where its body and its extents begin in the view */
    uint32_t crc;         /* of the body as it is seen, if summed */
    bool summed;
};

struct view {
    struct pool *pool;
    struct portus_pool_superblock super;
    uint64_t bodies_end, end;
    struct item *item;
    size_t count;
    /* The body that was used last, as it is seen, and where its extents really are. */
    size_t loaded; /* item + 1 */
    struct body body;
    uint64_t *places;
};

static uint64_t round_page(uint64_t bytes)
{
    return (bytes + PORTUS_POOL_PAGE - 1) & -(uint64_t)PORTUS_POOL_PAGE;
}

static void lay_out(struct view *view, const struct pool_share *share)
{
    struct portus_pool_superblock *super = &view->super;
    const struct pool *pool = view->pool;
    struct pool_usage usage;
    uint64_t at;

    *super = pool->super;
    super->generation = 1;
    super->slots = view->count > 0 ? view->count : 1;
    super->catalogue = PORTUS_POOL_SECOND + PORTUS_POOL_PAGE;
    at = round_page(super->slots * sizeof(struct portus_pool_slot));
    super->second_catalogue = super->catalogue + at;
    super->data = super->second_catalogue + at;
    at = super->data;
    for (size_t i = 0; i < view->count; i++) {
        struct item *item = &view->item[i];

        item->body = at;
        at += body_units(pool_find(pool, item->number)->body_bytes) * PORTUS_POOL_UNIT;
    }
    view->bodies_end = at;
    for (size_t i = 0; i < view->count; i++) {
        const struct entry *entry = pool_find(pool, view->item[i].number);

        view->item[i].bytes = at;
        at += (entry->units - body_units(entry->body_bytes)) * PORTUS_POOL_UNIT;
    }
    view->end = at;
    pool_use(pool, share, &usage);
    super->pool_bytes = round_page(at + usage.left) + PORTUS_POOL_PAGE;
    super->crc = portus_crc32(0, super, offsetof(struct portus_pool_superblock, crc));
}

int view_open(struct view **out, struct pool *pool, const struct pool_share *share)
{
    struct view *view = calloc(1, sizeof(*view));
    struct pool_usage usage;

    if (view == NULL)
        return -ENOMEM;
    view->pool = pool;
    pool_use(pool, share, &usage);
    view->item = calloc(usage.objects + 1, sizeof(*view->item));
    if (view->item == NULL) {
        free(view);
        return -ENOMEM;
    }
    for (size_t i = 0; i < pool->count; i++) {
        const struct entry *entry = &pool->entries[i];

        if (!entry->dead && pool_counts(share, entry->owner))
            view->item[view->count++].number = entry->number;
    }
    lay_out(view, share);
    *out = view;
    return 0;
}

void view_close(struct view *view)
{
    if (view == NULL)
        return;
    body_free(&view->body);
    free(view->places);
    free(view->item);
    free(view);
}

uint64_t view_head(const struct view *view)
{
    return view->bodies_end;
}

/* ---- its parts ---- */

/* Loads the body of an item and gives its extents the places that they have in the view. */
static int load(struct view *view, size_t index)
{
    const struct entry *entry = pool_find(view->pool, view->item[index].number);
    struct body *body = &view->body;
    uint64_t at = view->item[index].bytes, *places;
    int error;

    if (entry == NULL)
        return -ESTALE;
    if (view->loaded == index + 1)
        return 0;
    view->loaded = 0;
    error = pool_body(view->pool, entry, body);
    if (error != 0)
        return error;
    places = realloc(view->places, (body->head->extents + 1) * sizeof(*places));
    if (places == NULL)
        return -ENOMEM;
    view->places = places;
    for (uint64_t i = 0; i < body->head->extents; i++) {
        places[i] = body->extents[i].place;
        body->extents[i].place = at;
        at += body_units(body->extents[i].length) * PORTUS_POOL_UNIT;
    }
    if (!view->item[index].summed)
        view->item[index].crc = portus_crc32(0, body->head, body->head->bytes);
    view->item[index].summed = true;
    view->loaded = index + 1;
    return 0;
}

/* A slot that nobody uses, or a version's. */
static int make_slot(struct view *view, size_t index, struct portus_pool_slot *slot)
{
    struct portus_pool_slot copies[2];
    const uint8_t *uuid = view->super.uuid;
    const struct entry *entry;
    struct item *item = &view->item[index];
    int error;

    memset(slot, 0, sizeof(*slot));
    entry = index < view->count ? pool_find(view->pool, item->number) : NULL;
    if (entry == NULL)
        return 0;
    error = item->summed ? 0 : load(view, index);
    if (error == -ENOMEM)
        return error;
    for (int copy = 0; copy < 2 && error == 0; copy++)
        error = map_read(view->pool->map, slot_offset(&view->pool->super, entry->slot, copy),
                         &copies[copy], sizeof(copies[copy]));
    if (error != 0)
        return 0; /* damaged: left out */
    slot_marks(uuid, entry->slot, entry->number, copies, &slot->marks);
    slot->marks.crc = 0;
    slot->marks.number = entry->number;
    slot->marks.crc = marks_crc(uuid, (uint32_t)index, &slot->marks);
    slot->commit = slot_word(uuid, (uint32_t)index, entry->number);
    slot->number = entry->number;
    slot->body = item->body;
    slot->body_bytes = entry->body_bytes;
    slot->body_crc = item->crc;
    slot->crc = slot_crc(uuid, (uint32_t)index, slot);
    return 0;
}

/* Copies what of `bytes` at `begin` lies in the window. */
struct window {
    uint64_t offset;
    char *to;
    size_t length;
};

static void show(const struct window *window, uint64_t begin, const void *from, uint64_t bytes)
{
    uint64_t end = begin + bytes, window_end = window->offset + window->length;
    uint64_t first = begin > window->offset ? begin : window->offset;
    uint64_t last = end < window_end ? end : window_end;

    if (first < last)
        memcpy(window->to + (first - window->offset), (const char *)from + (first - begin),
               last - first);
}

static int show_slots(struct view *view, const struct window *window, uint64_t begin)
{
    const uint64_t each = sizeof(struct portus_pool_slot);
    uint64_t end = window->offset + window->length, first = 0;
    struct portus_pool_slot slot;
    int error = 0;

    if (window->offset > begin)
        first = (window->offset - begin) / each;
    for (uint64_t i = first; i < view->count && begin + i * each < end && error == 0; i++) {
        error = make_slot(view, i, &slot);
        show(window, begin + i * each, &slot, each);
    }
    return error;
}

/* The last item that begins at or before offset; of those of no length the last, too. */
static size_t item_at(const struct view *view, uint64_t offset, bool body)
{
    size_t low = 0, high = view->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if ((body ? view->item[middle].body : view->item[middle].bytes) <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int show_bodies(struct view *view, const struct window *window)
{
    uint64_t end = window->offset + window->length;

    for (size_t i = item_at(view, window->offset, true);
         i < view->count && view->item[i].body < end; i++) {
        int error = load(view, i);

        if (error == -ENOMEM)
            return error;
        if (error == 0) /* otherwise a free slot, or none that anybody believes */
            show(window, view->item[i].body, view->body.head, view->body.head->bytes);
    }
    return 0;
}

/* Of extents only what is in them: the rest of their last units are zeros. */
static int show_bytes(struct view *view, const struct window *window)
{
    uint64_t end = window->offset + window->length;

    for (size_t i = item_at(view, window->offset, false);
         i < view->count && view->item[i].bytes < end; i++) {
        const struct portus_pool_extent *extent;
        uint64_t low = 0, high;
        int error = load(view, i);

        if (error != 0)
            return error;
        for (high = view->body.head->extents; low < high;) {
            uint64_t middle = low + (high - low) / 2;

            extent = &view->body.extents[middle];
            if (extent->place + extent->length <= window->offset)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < view->body.head->extents; low++) {
            uint64_t first, last;

            extent = &view->body.extents[low];
            if (extent->place >= end)
                break;
            first = extent->place > window->offset ? extent->place : window->offset;
            last = extent->place + extent->length < end ? extent->place + extent->length : end;
            error = map_read(view->pool->map, view->places[low] + (first - extent->place),
                             window->to + (first - window->offset), last - first);
            if (error != 0)
                return error;
        }
    }
    return 0;
}

int view_read(struct view *view, uint64_t offset, void *to, size_t length)
{
    const struct window window = {offset, to, length};
    uint64_t end = offset + length;
    int error = 0;

    if (offset > view->end || length > view->end - offset)
        return -EINVAL;
    memset(to, 0, length);
    show(&window, 0, &view->super, sizeof(view->super));
    show(&window, PORTUS_POOL_SECOND, &view->super, sizeof(view->super));
    if (offset < view->super.data && end > view->super.catalogue) {
        error = show_slots(view, &window, view->super.catalogue);
        if (error == 0)
            error = show_slots(view, &window, view->super.second_catalogue);
    }
    if (error == 0 && offset < view->bodies_end && end > view->super.data)
        error = show_bodies(view, &window);
    if (error == 0 && end > view->bodies_end)
        error = show_bytes(view, &window);
    return error;
}
