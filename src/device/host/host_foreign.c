/* Foreign host streams: the ring of a stream without its thread. With each entry one ticket goes to
 * the executor; whoever calls that works off one entry. The executor keeps order, so the n-th ticket
 * meets the n-th entry, and its own work lies between them.
 *
 *     executor   native | ticket | native | ticket | ticket
 *     ring                entry             entry    entry (an empty one: a record, a look)
 *
 * The last that a ticket touches is `foreign`, which it holds; the stream and the device may be
 * gone as soon as their counters say so. */
#include "device/host/host_foreign.h"

#include <stdlib.h>

#define NOT_ASKED UINT64_MAX

struct hr__foreign {
    hr__counter left; /* tickets whose call is over */
    hr__host_stream *h;
    hr_stream_wrap_opts opts;
    atomic_int holders; /* the stream, and tickets under way */
    uint64_t tickets;   /* issuing thread */
    uint64_t asked;     /* issuing thread: entry of the last look; NOT_ASKED */
};

static void let_go(hr__foreign *f)
{
    if (atomic_fetch_sub(&f->holders, 1) == 1)
        free(f);
}

static void work_off_one(void *foreign)
{
    hr__foreign *f = foreign;
    hr__host_stream *h = f->h;
    int rank = hr_thread_rank();
    hr_set_thread_rank(h->base.dev->rank);
    (void)hr__counter_get(
        h->queued); /* the entry is there, whatever the executor orders */
    hr__host_work(h, hr__counter_get(h->done));
    hr_set_thread_rank(rank);
    hr__counter_add(&f->left, 1);
    let_go(f);
}

/* An executor that takes no more work fails the device; what it has taken comes first. */
static void refused(hr__host_stream *h, hr_status st)
{
    hr_device *dev = h->base.dev;
    char said[256];
    snprintf(said, sizeof said, "%s", hr_last_error());
    hr_fail(st, "executor", "rank %d, stream '%s': its executor takes no work: %s",
            dev->rank, h->base.name, said[0] ? said : hr_status_text(st));
    hr_device_fail(dev, st);
    hr__counter_wait(h->done, h->head - 1);
    work_off_one(h->foreign);
}

void hr__foreign_submit(hr__host_stream *h)
{
    hr__foreign *f = h->foreign;
    atomic_fetch_add(&f->holders, 1);
    f->tickets++;
    hr_status st = f->opts.post(f->opts.ctx, work_off_one, f);
    if (st < 0)
        refused(h, st);
}

bool hr__foreign_idle(hr__host_stream *h)
{
    hr__foreign *f = h->foreign;
    if (hr__counter_get(h->done) != h->head)
        return false;
    if (f->asked != h->head) {
        hr__host_mark(h);
        f->asked = h->head;
    }
    if (hr__counter_get(h->done) != h->head)
        return false;
    f->asked = NOT_ASKED; /* who asks again asks about what has come since */
    return true;
}

void hr__foreign_fini(hr__host_stream *h)
{
    hr__counter_wait(&h->foreign->left, h->foreign->tickets);
    let_go(h->foreign);
}

void *hr__host_stream_native(const hr_stream *s)
{
    const hr__host_stream *h = (const hr__host_stream *)s;
    return h->foreign ? h->foreign->opts.native : NULL;
}

hr_status hr__host_stream_wrap(hr_stream *s, const hr_stream_wrap_opts *o)
{
    hr__host_stream *h = (hr__host_stream *)s;
    if (o->post == NULL)
        return hr_fail(HR_ERR_INVALID, "no_executor",
                       "stream '%s': a host device wants an executor to post to",
                       s->name);
    hr__foreign *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);
    if (f == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for stream '%s'", s->name);
    *f = (hr__foreign){.h = h, .opts = *o, .asked = NOT_ASKED};
    hr__counter_init(&f->left);
    atomic_init(&f->holders, 1);
    hr_status st = hr__host_ring_init(s);
    if (st < 0)
        free(f);
    else
        h->foreign = f;
    return st;
}
