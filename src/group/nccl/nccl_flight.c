/* See nccl_flight.h. */
#include "group/nccl/nccl_flight.h"
#include "group/nccl/nccl_stage.h"
#include <stdlib.h>
#include <string.h>

hr__nccl_flight *hr__nccl_flight_new(hr__nccl_flights *f, hr__gpu_device *dev)
{
    hr__nccl_flight *x = f->idle;
    if (x)
        f->idle = x->next;
    else
        x = malloc(sizeof *x);
    if (x == NULL) {
        hr_fail(HR_ERR_NOMEM, NULL, "no memory for an operation of a group");
        return NULL;
    }
    memset(x, 0, sizeof *x);
    x->begin = hr__cuda_event_take(dev, &dev->plain);
    x->end = hr__cuda_event_take(dev, &dev->plain);
    if (x->begin && x->end)
        return x;
    hr__nccl_flight_drop(f, dev, x);
    return NULL;
}

void hr__nccl_flight_drop(hr__nccl_flights *f, hr__gpu_device *dev, hr__nccl_flight *x)
{
    hr__nccl_pieces_done(x->pieces);
    if (x->begin)
        hr__cuda_event_put(dev, &dev->plain, x->begin);
    if (x->end)
        hr__cuda_event_put(dev, &dev->plain, x->end);
    x->next = f->idle;
    f->idle = x;
}

void hr__nccl_flight_add(hr__nccl_flights *f, hr__nccl_flight *x)
{
    x->next = NULL;
    if (f->last)
        f->last->next = x;
    else
        f->first = x;
    f->last = x;
}

/* A question that fails is over, too: who waits for the stream hears of the failure. */
static bool is_reached(const hr__cudart *rt, cudaEvent_t e)
{
    cudaError_t st = rt->cudaEventQuery(e);
    if (st == cudaSuccess)
        return true;
    (void)rt->cudaGetLastError();
    return st != cudaErrorNotReady;
}

static void note_begin(hr__nccl_flights *f, hr__nccl_flight *x)
{
    hr__entry entry = {.op = x->op,
                       .seq = x->seq,
                       .bytes = x->bytes,
                       .peers = x->peers,
                       .label = &x->label};
    x->begun_ns = hr_now_ns();
    hr__doing_begin(&f->doing, &entry);
}

void hr__nccl_flights_refresh(hr__nccl_flights *f, const hr__cudart *rt)
{
    for (hr__nccl_flight *x; (x = f->first) != NULL;) {
        if (x->begun_ns == 0 && is_reached(rt, x->begin))
            note_begin(f, x);
        if (x->begun_ns == 0 || !is_reached(rt, x->end))
            return;
        hr__doing_end(&f->doing, HR_OK);
        f->first = x->next;
        if (f->first == NULL)
            f->last = NULL;
        x->next = f->ended;
        f->ended = x;
    }
}

void hr__nccl_flights_reap(hr__nccl_flights *f, hr__gpu_device *dev, bool all)
{
    hr__nccl_flight **from = &f->ended;
    for (int list = 0; list < (all ? 2 : 1); list++, from = &f->first)
        for (hr__nccl_flight *x; (x = *from) != NULL;) {
            *from = x->next;
            hr__nccl_flight_drop(f, dev, x);
        }
    if (all)
        f->last = NULL;
}

void hr__nccl_flights_free(hr__nccl_flights *f, hr__gpu_device *dev)
{
    hr__nccl_flights_reap(f, dev, true);
    for (hr__nccl_flight *x; (x = f->idle) != NULL;) {
        f->idle = x->next;
        free(x);
    }
}
