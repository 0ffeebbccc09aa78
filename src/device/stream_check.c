/* The stream checker finds, from the operands of launches and by the clocks alone:
 *
 *  - two accesses to the same bytes, one of them a write, that no event orders ("unordered");
 *  - the same where an event was recorded again before it was waited for ("stale_event", see
 *    check_events.h);
 *  - use of a block on a stream that nothing orders after its allocation ("unordered_alloc");
 *  - accesses to memory that was freed ("use_after_free");
 *  - frees that forget a stream ("unguarded_free").
 *
 * What it finds depends on what was issued, not on what happened to run when: no two streams
 * have to collide for it. The first finding fails the device and goes to the log. Off, it
 * costs a launch, a record and a wait one test of a pointer each.
 *
 * It never grows with the length of a run: blocks come from the pool, which is bounded, and
 * uses that all streams are behind are forgotten (check_shades.h).
 */
#include "device/stream_check.h"

#include <stdlib.h>

#include "device/check_words.h"
#include "device/device_ops.h"

struct hr__check {
    hr__regions regions;
    hr__check_events events;
};

hr__check *hr__check_create(void)
{
    return calloc(1, sizeof(hr__check));
}

void hr__check_destroy(hr__check *c)
{
    if (c)
        hr__regions_fini(&c->regions);
    free(c);
}

/* The sentence is this thread's last error. */
static void report(hr_device *dev)
{
    if (!hr__failed(&dev->fail))
        hr_log(HR_LOG_ERROR, "%s", hr_last_error());
    hr_device_fail(dev, HR_ERR_STATE);
}

/* The work that the calling thread issues on `s` now, at the position of the last launch. */
static hr__use work_on(const hr_stream *s)
{
    hr__use use = {.id = s->id, .position = s->issued, .stream = hr_intern(s->name)};
    use.behind = !hr__mark_recent(s, &use.mark);
    return use;
}

void hr__check_describe(const hr_stream *s, char text[HR__WORK_TEXT])
{
    _Static_assert((int)HR__WORK_TEXT == (int)HR__USE_TEXT, "they hold the same");
    hr__use use = work_on(s);
    hr__words_use(&use, text);
}

/* What all that is still to be issued is ordered after. */
static hr__clock known_to_all(const hr_device *dev)
{
    hr__clock known;
    for (int i = 0; i < HR_MAX_STREAMS; i++)
        known.at[i] = UINT64_MAX;
    for (int k = 0; k < HR_MAX_STREAMS; k++) {
        if (dev->streams[k] == NULL)
            continue;
        hr__clock c = hr__stream_clock(dev->streams[k]);
        for (int i = 0; i < HR_MAX_STREAMS; i++)
            known.at[i] = known.at[i] < c.at[i] ? known.at[i] : c.at[i];
    }
    return known;
}

/* ---- launches ---- */
static void check_piece(hr__check *c, hr_device *dev, const hr__region *r,
                        const char *begin, const char *end, const hr__use *use,
                        const hr__clock *now)
{
    const char *at = begin;
    const hr__use *old;
    if (r->freed) {
        (void)hr__words_freed(dev->rank, r, begin, use);
        report(dev);
        return;
    }
    old = hr__shades_conflict(&r->shades, begin, end, use->kind, use->id, now, &at);
    if (old) {
        (void)hr__words_unordered(dev->rank, r, at, use, old,
                                  hr__events_stale(&c->events, use->id, old));
        report(dev);
    } else if (r->begin && r->born.id != use->id &&
               now->at[r->born.id] < r->born.position) {
        (void)hr__words_early(dev->rank, r, begin, use);
        report(dev);
    }
}

static void use_operand(hr__check *c, hr_device *dev, const hr_operand *o,
                        const hr__use *use, const hr__clock *now)
{
    const char *p = o->ptr, *end = p + o->bytes, *stop;
    for (; p < end; p = stop) {
        hr__region *r = hr__regions_find(&c->regions, p, end, &stop);
        check_piece(c, dev, r, p, stop, use, now);
        if (hr__shades_crowded(&r->shades)) {
            hr__clock known = known_to_all(dev);
            hr__shades_settle(&r->shades, &known);
        }
        if (!r->freed)
            hr__shades_add(&r->shades, p, stop, use);
    }
}

void hr__check_launch(hr__check *c, hr_stream *s, const char *name,
                      const hr_operand *operands, int n)
{
    hr__clock now = hr__stream_clock(s);
    hr__use use = work_on(s);
    use.position++;
    use.launch = name;
    for (int i = 0; i < n; i++) {
        if (operands[i].ptr == NULL || operands[i].bytes == 0)
            continue;
        use.kind = operands[i].access;
        use_operand(c, s->dev, &operands[i], &use, &now);
    }
}

/* ---- memory ---- */
void hr__check_alloc(hr__check *c, const hr_stream *s, const hr__block *b)
{
    const char *begin = b->ptr;
    hr__region *r = hr__regions_make(&c->regions, begin, begin + b->bytes);
    if (r == NULL)
        return;
    r->freed = false;
    r->born = work_on(s);
    hr__label_clear(r, r->begin, r->end);
}

static hr__use freeing(const hr_device *dev, const hr_stream *s, const hr__block *b)
{
    static const char gone[] = "a stream that is gone";
    if (s == NULL)
        s = dev->streams[b->home];
    return s ? work_on(s) : (hr__use){.id = b->home, .stream = gone};
}

void hr__check_free(hr__check *c, hr_device *dev, const hr_stream *s,
                    const hr__block *b)
{
    const char *begin = b->ptr, *at = begin;
    hr__region *r = hr__regions_make(&c->regions, begin, begin + b->bytes);
    if (r == NULL)
        return;
    hr__clock before = b->uses;
    hr__clock_join(&before, &dev->host);
    r->died = freeing(dev, s, b);
    const hr__use *old =
        hr__shades_conflict(&r->shades, r->begin, r->end, HR_WRITE, -1, &before, &at);
    if (old) {
        (void)hr__words_unguarded(dev->rank, r, at, old);
        report(dev);
    }
    hr__shades_clear(&r->shades, r->begin, r->end);
    r->freed = true;
}

void hr__check_forget(hr__check *c, const void *ptr, size_t bytes)
{
    const char *p = ptr, *end = p + bytes, *stop;
    for (; p < end; p = stop) {
        hr__region *r = hr__regions_find(&c->regions, p, end, &stop);
        if (r->begin)
            continue; /* a block of our own: its free tells */
        hr__shades_clear(&r->shades, p, stop);
        hr__label_clear(r, p, stop);
    }
}

void hr__check_name(hr__check *c, const void *ptr, size_t bytes, const char *name)
{
    const char *begin = ptr, *stop;
    hr__region *r = hr__regions_find(&c->regions, begin, begin + bytes, &stop);
    hr__label_put(r, begin, stop, name);
}

/* ---- events ---- */
void hr__check_record(hr__check *c, const hr_event *e, const hr_stream *s)
{
    hr__use again = work_on(s);
    if (e->recorded)
        hr__events_lose(&c->events, e->serial, &e->clock, &again);
}

void hr__check_wait(hr__check *c, const hr_event *e, const hr_stream *s)
{
    hr__events_wait(&c->events, e->serial, s->id);
}
