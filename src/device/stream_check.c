/* The stream checker finds, from the operands of launches and by the clocks alone:
 *
 *  - two accesses to the same bytes, one of them a write, that no event orders;
 *  - accesses to memory that was freed;
 *  - frees that forget a stream (hr_mem_record_stream).
 *
 * What it finds depends on what was issued, not on what happened to run when. The first
 * finding fails the device and goes to the log. Off, it costs a launch one test of a pointer.
 *
 * It keeps the accesses that a later one could still conflict with: a write that comes after
 * others and covers them takes their place, a read that of its stream's earlier read.
 */
#include "device/stream_check.h"

#include <stdlib.h>

#include "device/device_ops.h"

typedef struct access {
    const char *begin, *end;
    hr_access kind;
    int id; /* of the stream */
    uint64_t position;
    const char *launch, *stream; /* names; they outlive the stream */
} access;

struct hr__check {
    access *seen;
    size_t n, room;
};

hr__check *hr__check_create(void)
{
    return calloc(1, sizeof(hr__check));
}

void hr__check_destroy(hr__check *c)
{
    if (c)
        free(c->seen);
    free(c);
}

/* The sentence is this thread's last error. */
static void report(hr_device *dev)
{
    if (!hr__failed(&dev->fail))
        hr_log(HR_LOG_ERROR, "%s", hr_last_error());
    hr_device_fail(dev, HR_ERR_STATE);
}

static const char *verb(hr_access kind)
{
    return kind & HR_WRITE ? "writes" : "reads";
}

static bool overlap(const access *a, const access *b)
{
    return a->begin < b->end && b->begin < a->end;
}

static bool within(const access *a, const access *b)
{
    return b->begin <= a->begin && a->end <= b->end;
}

static void drop(hr__check *c, size_t i)
{
    c->seen[i] = c->seen[--c->n];
}

static void keep(hr__check *c, const access *a)
{
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 256;
        access *more = realloc(c->seen, room * sizeof *more);
        if (more == NULL)
            return; /* it may miss something, and invents nothing */
        c->seen = more;
        c->room = room;
    }
    c->seen[c->n++] = *a;
}

static bool is_freed(const hr_device *dev, const access *a)
{
    const hr__block_index *ix = &dev->pool.index;
    for (size_t i = 0; i < ix->room; i++) {
        const hr__block *b = ix->at[i];
        if (b && !b->live && a->begin < (char *)b->ptr + b->bytes &&
            (char *)b->ptr < a->end)
            return true;
    }
    return false;
}

static void check_access(hr__check *c, hr_device *dev, const access *a,
                         const hr__clock *now)
{
    if (is_freed(dev, a)) {
        hr_fail(HR_ERR_STATE, "use_after_free",
                "rank %d: launch '%s' on stream '%s' %s %p, which was freed", dev->rank,
                a->launch, a->stream, verb(a->kind), (const void *)a->begin);
        report(dev);
    }
    for (size_t i = c->n; i-- > 0;) {
        const access *old = &c->seen[i];
        if (!overlap(old, a))
            continue;
        bool ordered = old->position <= now->at[old->id];
        if (!ordered && ((old->kind | a->kind) & HR_WRITE)) {
            hr_fail(HR_ERR_STATE, "unordered",
                    "rank %d: launch '%s' on stream '%s' %s %p, launch '%s' on stream "
                    "'%s' %s it, and no event orders them",
                    dev->rank, a->launch, a->stream, verb(a->kind),
                    (const void *)a->begin, old->launch, old->stream, verb(old->kind));
            report(dev);
        }
        bool replaces =
            a->kind & HR_WRITE ? ordered : old->kind == HR_READ && old->id == a->id;
        if (replaces && within(old, a))
            drop(c, i);
    }
}

void hr__check_launch(hr__check *c, hr_stream *s, const char *name,
                      const hr_operand *operands, int n)
{
    hr__clock now = hr__stream_clock(s);
    for (int i = 0; i < 2 * n; i++) {
        /* All are checked before any is kept: a launch does not conflict with itself. */
        const hr_operand *o = &operands[i % n];
        access a = {.begin = o->ptr,
                    .end = (const char *)o->ptr + o->bytes,
                    .kind = o->access,
                    .id = s->id,
                    .position = s->issued + 1,
                    .launch = name,
                    .stream = hr_intern(s->name)};
        if (o->ptr == NULL || o->bytes == 0)
            continue;
        if (i < n)
            check_access(c, s->dev, &a, &now);
        else
            keep(c, &a);
    }
}

void hr__check_free(hr__check *c, hr_device *dev, const hr__block *b)
{
    access all = {.begin = b->ptr, .end = (char *)b->ptr + b->bytes};
    for (size_t i = c->n; i-- > 0;) {
        const access *old = &c->seen[i];
        if (!overlap(old, &all))
            continue;
        if (old->position > b->uses.at[old->id] &&
            old->position > dev->host.at[old->id]) {
            hr_fail(HR_ERR_STATE, "unguarded_free",
                    "rank %d: %p is freed while launch '%s' on stream '%s' %s it: no "
                    "event orders them, and that stream was not recorded",
                    dev->rank, b->ptr, old->launch, old->stream, verb(old->kind));
            report(dev);
        }
        drop(c, i);
    }
}
