/* Deleters of foreign memory; see foreign.h.
 *
 * A device that has failed skips its launches, and a deleter must not be skipped. So each one
 * is on a list until it runs, and those that a failure skipped run later: on the thread that
 * next gives foreign memory back while the device is failed, or ahead of the next deleter on
 * the same stream after a reset (a stream runs in order: what is still listed was skipped). */
#include "tensor/foreign.h"
#include "tensor/pool.h"
#include <pthread.h>

struct deletion {
    void (*deleter)(void *ctx, void *ptr);
    void *ctx, *ptr;
    const hr_stream *stream; /* these two to compare with only: they may be gone */
    const hr_device *dev;
    struct deletion *next; /* mu */
};

static pthread_mutex_t mu =
    PTHREAD_MUTEX_INITIALIZER;  /* taken with no other lock held */
static struct deletion *listed; /* mu; oldest first */

/* The device keeps its failure and reports it to whoever asks. */
static void ignore(hr_status st) {}

void hr__order_after(hr_stream *s, hr_stream *other)
{
    hr_event *e = NULL;
    hr_status st = hr_event_create(hr_stream_device(other), &e);
    if (st >= 0)
        st = hr_event_record(e, other);
    if (st >= 0)
        st = hr_event_wait(e, s);
    if (st < 0) /* without an event the host waits */
        ignore(hr_stream_synchronize(other));
    hr_event_destroy(e);
}

static void list(struct deletion *d)
{
    pthread_mutex_lock(&mu);
    struct deletion **end = &listed;
    while (*end)
        end = &(*end)->next;
    *end = d;
    pthread_mutex_unlock(&mu);
}

/* Take the oldest of a stream, or of a device, off the list. */
static struct deletion *take(const hr_stream *s, const hr_device *dev)
{
    pthread_mutex_lock(&mu);
    struct deletion **at = &listed;
    while (*at && (s ? (*at)->stream != s : (*at)->dev != dev))
        at = &(*at)->next;
    struct deletion *d = *at;
    if (d)
        *at = d->next;
    pthread_mutex_unlock(&mu);
    return d;
}

static void run(struct deletion *d)
{
    d->deleter(d->ctx, d->ptr);
    hr__pool_put(d, sizeof *d);
}

struct delete_args {
    struct deletion *upto;
    const hr_stream *stream;
};

static hr_status delete_kernel(const void *args, hr_team *team)
{
    const struct delete_args *a = args;
    struct deletion *d;
    bool last = false;
    while (!last && (d = take(a->stream, NULL)) != NULL) {
        last = d == a->upto;
        run(d);
    }
    return HR_OK;
}

static hr_status launch(struct deletion *d, size_t bytes, hr_stream *s)
{
    struct delete_args args = {d, s};
    hr_operand op = {d->ptr, bytes, HR_WRITE}; /* `d` may be gone once it is launched */
    hr_status st = hr_device_status(hr_stream_device(s));
    if (st >= 0)
        st = hr_launch(s, "storage.delete", delete_kernel, &args, sizeof args, &op, 1);
    if (st >= 0)
        hr_mem_forget(hr_stream_device(s), op.ptr, bytes);
    return st;
}

void hr__foreign_delete(hr_storage *st, void *ptr, size_t bytes, hr_stream *s)
{
    hr_device *dev = hr_stream_device(s);
    if (!st->deleter)
        return;
    for (int i = 0; st->used_on && i < st->used_on->n; i++)
        if (st->used_on->stream[i] != s)
            hr__order_after(s, st->used_on->stream[i]);
    struct deletion *d = hr__pool_get(sizeof *d);
    if (!d) {
        ignore(hr_device_synchronize(dev));
        st->deleter(st->deleter_ctx, ptr);
        return;
    }
    *d = (struct deletion){st->deleter, st->deleter_ctx, ptr, s, dev, NULL};
    list(d);
    if (launch(d, bytes, s) >= 0)
        return;
    ignore(hr_device_synchronize(dev)); /* no stream can touch any of it after this */
    while ((d = take(NULL, dev)) != NULL)
        run(d);
}
