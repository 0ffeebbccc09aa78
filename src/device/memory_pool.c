/* A block is free from its free's position in the stream on, and is handed out again only
 * where the clocks say that every use of it comes before the new one. Clocks follow from what
 * was issued, so addresses, live and peak bytes are the same in every run, whatever the
 * speed of the streams.
 *
 * Sizes are rounded up to classes, eight to a doubling: at most an eighth is lost. A class
 * that has no block ready borrows from the next ones, up to twice the size. Nothing is split
 * or merged. Small blocks are cut from slabs, large ones are slabs of their own.
 *
 * With poison, memory reads as NaN before its first write and after its free. The fills keep
 * their order by events of their own, which the clocks do not see: a build with poison gives
 * the same addresses as one without.
 */
#include <stdlib.h>

#include "device/device_ops.h"

enum { MIN_STEP = 512, SMALL_CLASSES = 8, SLAB_BYTES = 32 << 20, OWN_SLAB = 4 << 20 };

/* The class of `bytes` (at least 1), and the room it gives. Up to 4 KiB in steps of 512 B;
 * from 2^k to 2^(k+1) in eight steps. */
static int class_of(size_t bytes, size_t *room)
{
    size_t last = bytes - 1;
    if (last < SMALL_CLASSES * (size_t)MIN_STEP) {
        int c = (int)(last / MIN_STEP);
        *room = ((size_t)c + 1) * MIN_STEP;
        return c;
    }
    int k = 63 - __builtin_clzll(last);
    size_t step = (size_t)1 << (k - 3);
    size_t i = (last - ((size_t)1 << k)) / step;
    *room = ((size_t)1 << k) + (i + 1) * step;
    return SMALL_CLASSES + (k - 12) * 8 + (int)i;
}

void hr__pool_init(hr__pool *p, hr_device *dev, size_t limit, bool poison)
{
    p->dev = dev;
    p->limit = limit;
    p->poison = poison;
}

void hr__pool_fini(hr__pool *p)
{
    if (p->stats.live_blocks)
        hr_log(HR_LOG_WARN,
               "device of rank %d closes with %zu bytes live in %zu blocks",
               p->dev->rank, p->stats.live_bytes, p->stats.live_blocks);
    hr__index_fini(&p->index);
    while (p->slabs) {
        hr__slab *slab = p->slabs;
        p->slabs = slab->next_of_pool;
        hr__slab_free(slab);
    }
}

/* Take the first block of the list whose uses all come before `now`. */
static hr__block *take_ready(hr__block **list, const hr__clock *now)
{
    for (hr__block **at = list; *at; at = &(*at)->next) {
        hr__block *b = *at;
        if (hr__clock_covers(now, &b->uses)) {
            *at = b->next;
            return b;
        }
    }
    return NULL;
}

static hr__slab *add_slab(hr__pool *p, size_t bytes)
{
    hr__slab *slab = hr__slab_new(p->dev, bytes);
    if (slab == NULL)
        return NULL;
    slab->next_of_pool = p->slabs;
    p->slabs = slab;
    p->stats.reserved_bytes += bytes;
    return slab;
}

/* `room` bytes never handed out before. */
static void *fresh_memory(hr__pool *p, size_t room)
{
    if (room > OWN_SLAB) {
        hr__slab *slab = add_slab(p, room);
        return slab ? slab->base : NULL;
    }
    if ((size_t)(p->cut_end - p->cut) < room) {
        hr__slab *slab = add_slab(p, SLAB_BYTES);
        if (slab == NULL)
            return NULL;
        p->cut = slab->base;
        p->cut_end = slab->base + SLAB_BYTES;
    }
    void *ptr = p->cut;
    p->cut += room;
    return ptr;
}

static hr__block *fresh_block(hr__pool *p, int size_class, size_t room)
{
    hr__block *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->ptr = fresh_memory(p, room);
    b->bytes = room;
    b->size_class = size_class;
    b->fill_on_alloc = true;
    if (b->ptr == NULL || !hr__index_add(&p->index, b)) {
        free(b);
        return NULL;
    }
    return b;
}

static hr__block *cached_block(hr__pool *p, const hr_stream *s, int size_class)
{
    hr__clock now = hr__stream_clock(s);
    for (int c = size_class; c <= size_class + 8 && c < HR__SIZE_CLASSES; c++) {
        hr__block *b = take_ready(&p->free_lists[c], &now);
        if (b)
            return b;
    }
    return NULL;
}

static void count_live(hr_mem_stats *st, size_t bytes)
{
    st->live_blocks++;
    st->live_bytes += bytes;
    if (st->live_bytes > st->peak_bytes)
        st->peak_bytes = st->live_bytes;
}

static void poison_handed_out(hr__pool *p, hr__block *b, hr_stream *s)
{
    if (b->fill_on_alloc)
        p->dev->ops->fill(s, "poison", b->ptr, 0xff, b->bytes);
    else
        p->dev->ops->event_wait(b->poisoned, s);
}

hr_status hr__pool_alloc(hr__pool *p, hr_stream *s, size_t bytes, void **out)
{
    size_t room = 0;
    if (p->limit && (bytes > p->limit || p->stats.live_bytes > p->limit - bytes))
        return hr_fail(HR_ERR_NOMEM, "memory_limit",
                       "rank %d, stream '%s': %zu bytes requested, %zu live, limit %zu",
                       p->dev->rank, s->name, bytes, p->stats.live_bytes, p->limit);
    hr__block *b = NULL;
    if (bytes <= SIZE_MAX / 4) {
        int size_class = class_of(bytes, &room);
        b = cached_block(p, s, size_class);
        if (b == NULL)
            b = fresh_block(p, size_class, room);
    }
    if (b == NULL)
        return hr_fail(
            HR_ERR_NOMEM, "memory",
            "rank %d, stream '%s': %zu bytes requested, %zu live, the system "
            "gives no more",
            p->dev->rank, s->name, bytes, p->stats.live_bytes);
    if (p->poison)
        poison_handed_out(p, b, s);
    b->live = true;
    b->requested = bytes;
    b->home = s->id;
    b->recorded = 0;
    count_live(&p->stats, bytes);
    if (p->dev->check)
        hr__check_alloc(p->dev->check, s, b);
    *out = b->ptr;
    return HR_OK;
}

/* All that comes before the next launch on the stream with this id: its launches, and what
 * it was made to wait for since. Nothing that the host has not waited for if it is gone. */
static void join_queued(hr__clock *uses, const hr_device *dev, int id)
{
    if (dev->streams[id]) {
        hr__clock c = hr__stream_clock(dev->streams[id]);
        hr__clock_join(uses, &c);
    }
}

/* Fill a freed block right behind what is queued on `s`. Where `s` would have to wait for the
 * recorded streams first, a rank could then wait for a peer that waits for `s`: such a block,
 * as one whose stream is gone, is filled when it is handed out again. */
static void poison_freed(hr__pool *p, hr__block *b, hr_stream *s)
{
    const hr_device_ops *ops = p->dev->ops;
    hr__clock now = {{0}};
    if (s)
        now = hr__stream_clock(s);
    b->fill_on_alloc = !s || !hr__clock_covers(&now, &b->uses) ||
                       (!b->poisoned && hr__event_new(p->dev, &b->poisoned) < 0);
    if (b->fill_on_alloc)
        return;
    ops->fill(s, "poison", b->ptr, 0xff, b->bytes);
    ops->event_record(b->poisoned, s);
}

void hr__pool_free(hr__pool *p, hr__block *b, hr_stream *s)
{
    int on = s ? s->id : b->home;
    b->uses = (hr__clock){{0}};
    for (int i = 0; i < HR_MAX_STREAMS; i++)
        if (i == on || (b->recorded >> i & 1))
            join_queued(&b->uses, p->dev, i);
    if (p->dev->check)
        hr__check_free(p->dev->check, p->dev, s, b);
    if (p->poison)
        poison_freed(p, b, p->dev->streams[on]);
    p->stats.live_blocks--;
    p->stats.live_bytes -= b->requested;
    b->live = false;
    b->next = p->free_lists[b->size_class];
    p->free_lists[b->size_class] = b;
}
