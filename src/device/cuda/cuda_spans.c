/* Spans of a CUDA stream. Host kernels note their times themselves; work of the GPU lies between two
 * events with time stamps, which are read against an anchor: an event whose time by the clock of the host
 * is known. All of it goes into the lane when the stream is empty, in issue order, by the issuing thread.
 */
#include <stdlib.h>

#include "device/cuda/cuda_device.h"

enum { MOST_PENDING = 4096 };
/* The runtime tells times in float milliseconds: past this they get coarser than a microsecond. */
static const int64_t ANCHOR_HOLDS_NS = 4000000000;

/* ---- making them --------------------------------------------------------------------------------- */
static cudaError_t ask_event(hr_stream *s, void *event)
{
    return hr__cuda(s)->cudaEventQuery(event);
}

/* On the side stream, which is empty, so that its time is now: at most as long ago as the call and the
 * look for it took. */
static bool place_anchor(hr__gpu_stream *c)
{
    enum { TRIES = 4, CLOSE_ENOUGH_NS = 20000 };
    hr__gpu_device *d = hr__cuda_device_of(&c->base);
    hr__cuda_spans *p = &c->spans;
    if (p->anchor == NULL)
        p->anchor = hr__cuda_event_take(d, &d->timed);
    for (int i = 0; i < TRIES && p->anchor; i++) {
        int64_t before = hr_now_ns();
        if (!hr__cuda_ok(&d->base, &c->base, d->rt->cudaEventRecord(p->anchor, d->side),
                         "cudaEventRecord") ||
            hr__cuda_await(&d->base, &c->base, ask_event, p->anchor,
                           "cudaEventQuery") != cudaSuccess)
            return false;
        p->anchor_ns = hr_now_ns();
        if (p->anchor_ns - before < CLOSE_ENOUGH_NS)
            break;
    }
    return p->anchor != NULL;
}

static bool has_anchor(hr__gpu_stream *c)
{
    hr__cuda_spans *p = &c->spans;
    bool fresh = p->anchor && hr_now_ns() - p->anchor_ns < ANCHOR_HOLDS_NS;
    return fresh || (p->anchor && p->first) || place_anchor(c);
}

static hr__cuda_span *take(hr__gpu_stream *c, const char *name, hr_span_kind kind)
{
    hr__cuda_spans *p = &c->spans;
    if (c->base.lane == NULL)
        return NULL;
    if (p->n == MOST_PENDING)
        hr__cuda_stream_drain(&c->base);
    hr__cuda_span *span = p->idle;
    if (span)
        p->idle = span->next;
    else
        span = malloc(sizeof *span);
    if (span)
        *span = (hr__cuda_span){.name = name, .kind = kind};
    return span;
}

static void append(hr__cuda_spans *p, hr__cuda_span *span)
{
    *p->last = span;
    p->last = &span->next;
    p->n++;
}

hr__cuda_span *hr__cuda_span_host(hr__gpu_stream *c, const hr__launch *l)
{
    hr__cuda_span *span = take(c, l->name, HR_SPAN_BUSY);
    if (span) {
        span->mark = l->mark;
        span->node = l->node;
        append(&c->spans, span);
    }
    return span;
}

static void put(hr__gpu_stream *c, hr__cuda_span *span)
{
    hr__gpu_device *d = hr__cuda_device_of(&c->base);
    hr__cuda_event_put(d, &d->timed, span->begin);
    hr__cuda_event_put(d, &d->timed, span->end);
    span->next = c->spans.idle;
    c->spans.idle = span;
}

hr__cuda_span *hr__cuda_span_begin(hr__gpu_stream *c, const char *name,
                                   hr_span_kind kind)
{
    hr__gpu_device *d = hr__cuda_device_of(&c->base);
    hr__cuda_span *span = take(c, name, kind);
    if (span == NULL)
        return NULL;
    hr__launch l = {.name = name};
    hr__mark_fill(&c->base, &l);
    span->mark = l.mark;
    span->node = l.node;
    if (has_anchor(c))
        span->begin = hr__cuda_event_take(d, &d->timed);
    if (span->begin)
        span->end = hr__cuda_event_take(d, &d->timed);
    if (span->end &&
        hr__cuda_ok(&d->base, &c->base, d->rt->cudaEventRecord(span->begin, c->native),
                    "cudaEventRecord"))
        return span;
    put(c, span);
    return NULL;
}

void hr__cuda_span_end(hr__gpu_stream *c, hr__cuda_span *span)
{
    hr__gpu_device *d = hr__cuda_device_of(&c->base);
    if (span == NULL)
        return;
    if (hr__cuda_ok(&d->base, &c->base, d->rt->cudaEventRecord(span->end, c->native),
                    "cudaEventRecord"))
        append(&c->spans, span);
    else
        put(c, span);
}

/* ---- reading them -------------------------------------------------------------------------------- */
static int64_t time_of(hr__gpu_stream *c, cudaEvent_t e)
{
    float ms = 0;
    if (hr__cuda(&c->base)->cudaEventElapsedTime(&ms, c->spans.anchor, e) !=
        cudaSuccess)
        return 0;
    return c->spans.anchor_ns + (int64_t)((double)ms * 1e6);
}

static void read_one(hr__gpu_stream *c, hr__cuda_span *span)
{
    hr_lane *lane = c->base.lane;
    if (span->begin) {
        span->begin_ns = time_of(c, span->begin);
        span->end_ns = time_of(c, span->end);
    }
    if (span->begin_ns == 0 || span->end_ns == 0)
        return;
    hr__node_enter(&c->spans.open, lane, span->node, &span->mark, span->begin_ns);
    c->spans.open.end_ns = span->end_ns;
    hr__span_add(lane, span->kind, span->name, &span->mark, span->begin_ns,
                 span->end_ns);
}

void hr__cuda_spans_read(hr__gpu_stream *c)
{
    hr__cuda_spans *p = &c->spans;
    while (p->first) {
        hr__cuda_span *span = p->first;
        p->first = span->next;
        read_one(c, span);
        put(c, span);
    }
    p->last = &p->first;
    p->n = 0;
    if (p->open.node && !hr__mark_is_open(&c->base, p->open.node))
        hr__node_close(&p->open, c->base.lane);
}

void hr__cuda_spans_fini(hr__gpu_stream *c)
{
    hr__gpu_device *d = hr__cuda_device_of(&c->base);
    hr__cuda_event_put(d, &d->timed, c->spans.anchor);
    while (c->spans.idle) {
        hr__cuda_span *span = c->spans.idle;
        c->spans.idle = span->next;
        free(span);
    }
}
