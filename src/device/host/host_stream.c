/* The issuing side of a host stream: write entries into the ring, look at counters. The other
 * side of the ring is host_worker.c. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "device/host/host_foreign.h"

static hr__host_stream *host(hr_stream *s)
{
    return (hr__host_stream *)s;
}

/* Signals are for the caller's threads. */
static int start_thread(hr__host_stream *h)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&h->thread, NULL, hr__host_worker, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

hr_status hr__host_ring_init(hr_stream *s)
{
    hr__host_stream *h = host(s);
    hr__host_device *d = (hr__host_device *)s->dev;
    h->queued = &d->lanes[s->id].queued;
    h->done = &d->lanes[s->id].done;
    h->head = h->done_seen = hr__counter_get(h->done);
    h->team = d->team;
    h->ring = aligned_alloc(64, HR__RING * sizeof *h->ring);
    if (h->ring == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the queue of stream '%s'",
                       s->name);
    return HR_OK;
}

hr_status hr__host_stream_init(hr_stream *s)
{
    hr__host_stream *h = host(s);
    HR_TRY(hr__host_ring_init(s));
    int rc = start_thread(h);
    if (rc) {
        free(h->ring);
        return hr_fail(HR_ERR_DEVICE, "thread", "no thread for stream '%s': %s",
                       s->name, strerror(rc));
    }
    return HR_OK;
}

/* The next entry, once there is room. A full ring waits until half of it is free, so that
 * the two sides do not wake each other for every entry. */
static hr__entry *next_entry(hr__host_stream *h)
{
    if (h->head - h->done_seen == HR__RING) {
        h->done_seen = hr__counter_get(h->done);
        if (h->head - h->done_seen == HR__RING)
            h->done_seen = hr__counter_wait(h->done, h->head - HR__RING / 2);
    }
    /* The other core read what lies ahead a round ago: take it back before it is wanted. */
    hr__entry *soon = &h->ring[(h->head + 8) % HR__RING];
    __builtin_prefetch(soon, 1);
    __builtin_prefetch((char *)soon + 64, 1);
    return &h->ring[h->head % HR__RING];
}

static void push(hr__host_stream *h)
{
    hr__counter_set(h->queued, ++h->head);
    if (h->foreign)
        hr__foreign_submit(h);
}

void hr__host_mark(hr__host_stream *h)
{
    hr__entry *e = next_entry(h);
    e->kernel = NULL;
    e->wait = (hr__host_wait){h->done, 0}; /* reached since ever */
    push(h);
}

static void end_thread(hr__host_stream *h)
{
    hr__entry *e = next_entry(h);
    e->kernel = NULL;
    e->wait.counter = NULL;
    push(h);
    pthread_join(h->thread, NULL);
}

void hr__host_stream_fini(hr_stream *s)
{
    hr__host_stream *h = host(s);
    if (h->foreign)
        hr__foreign_fini(h);
    else
        end_thread(h);
    free(h->ring);
}

void hr__host_launch(hr_stream *s, const hr__launch *l)
{
    hr__host_stream *h = host(s);
    hr__entry *e = next_entry(h);
    e->name = l->name;
    e->kernel = l->kernel;
    e->mark = l->mark;
    e->node = l->node;
    if (l->arg_bytes)
        memcpy(e->args, l->args, l->arg_bytes);
    push(h);
}

void hr__host_stream_drain(hr_stream *s)
{
    hr__host_stream *h = host(s);
    if (h->foreign)
        hr__host_mark(h); /* behind what others have put there */
    h->done_seen = hr__counter_wait(h->done, h->head);
    if (h->open.node && !hr__mark_is_open(s, h->open.node))
        hr__node_close(&h->open, s->lane);
}

bool hr__host_stream_idle(hr_stream *s)
{
    hr__host_stream *h = host(s);
    return h->foreign ? hr__foreign_idle(h) : hr__counter_get(h->done) == h->head;
}

/* The count says what has run, so a sleeper for more waits for what runs now or comes behind it. */
bool hr__host_stream_awaited(const hr_stream *s)
{
    return hr__counter_awaited(((const hr__host_stream *)s)->done);
}

void hr__host_event_record(hr_event *e, hr_stream *s)
{
    hr__host_stream *h = host(s);
    if (h->foreign)
        hr__host_mark(h); /* behind what others have put there */
    ((hr__host_event *)e)->point = (hr__host_wait){h->done, h->head};
}

/* What has been reached needs no entry: who looked here has seen it, and queues after. */
void hr__host_event_wait(hr_event *e, hr_stream *s)
{
    hr__host_stream *h = host(s);
    hr__host_wait point = ((hr__host_event *)e)->point;
    if (point.counter == h->done || hr__counter_get(point.counter) >= point.value)
        return;
    hr__entry *entry = next_entry(h);
    entry->kernel = NULL;
    entry->wait = point;
    push(h);
}

void hr__host_event_drain(hr_event *e)
{
    hr__host_wait point = ((hr__host_event *)e)->point;
    hr__counter_wait(point.counter, point.value);
}

bool hr__host_event_reached(hr_event *e)
{
    hr__host_wait point = ((hr__host_event *)e)->point;
    return hr__counter_get(point.counter) >= point.value;
}
