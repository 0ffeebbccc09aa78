/* What is put on a CUDA stream: host kernels as host functions, work of the GPU, copies, fills. */
#include <sched.h>

#include "device/cuda/cuda_device.h"

#include <string.h>

/* ---- host kernels ------------------------------------------------------------------------------ */
static void run(hr__cuda_call *c)
{
    hr_stream *s = c->s;
    if (hr__failed(&s->dev->fail))
        return;
    int rank = hr_thread_rank();
    hr_set_thread_rank(s->dev->rank);
    hr__kernel_lane_set(s->lane);
    if (c->span)
        c->span->begin_ns = hr_now_ns();
    hr_status st = c->kernel(c->args, NULL);
    if (c->span)
        c->span->end_ns = hr_now_ns();
    hr__kernel_lane_set(NULL);
    if (st < 0) {
        hr__launch_failed(s, c->name, &c->mark, st);
        hr_error_clear(); /* the next failure must not speak with this one's words */
    }
    hr_set_thread_rank(rank);
}

/* On a thread of CUDA's, in stream order. The last that it touches is the state of its place in the ring. */
static void CUDART_CB run_call(void *call)
{
    hr__cuda_call *c = call;
    int queued = HR__CALL_QUEUED;
    if (!atomic_compare_exchange_strong(&c->state, &queued, HR__CALL_RUNS))
        return;
    run(c);
    atomic_store(&c->state, HR__CALL_DONE);
}

static hr__cuda_call *place(hr__gpu_stream *c, uint64_t at)
{
    return &c->ring[at % HR__CUDA_RING];
}

static bool is_free(hr__cuda_call *call)
{
    return atomic_load(&call->state) == HR__CALL_DONE;
}

void hr__cuda_give_up(hr__gpu_stream *c)
{
    c->dead = true;
    for (int i = 0; i < HR__CUDA_RING; i++) {
        int queued = HR__CALL_QUEUED;
        if (!atomic_compare_exchange_strong(&c->ring[i].state, &queued, HR__CALL_DONE))
            while (!is_free(&c->ring[i]))
                sched_yield();
    }
}

/* A full ring waits until half of it is free. */
static cudaError_t ask_room(hr_stream *s, void *of)
{
    hr__gpu_stream *c = (hr__gpu_stream *)s;
    if (is_free(place(c, c->head + HR__CUDA_RING / 2 - 1)))
        return cudaSuccess;
    cudaError_t e = hr__cuda(s)->cudaStreamQuery(c->native);
    return e == cudaSuccess ? cudaErrorNotReady : e;
}

static hr__cuda_call *next_call(hr__gpu_stream *c)
{
    hr_stream *s = &c->base;
    if (!c->dead && !is_free(place(c, c->head)) &&
        hr__cuda_await(s->dev, s, ask_room, NULL, "cudaStreamQuery") != cudaSuccess)
        hr__cuda_give_up(c);
    return c->dead ? NULL : place(c, c->head);
}

static void context_is_gone(hr_stream *s)
{
    hr_fail(HR_ERR_DEVICE, "cuda", "rank %d, stream '%s': its CUDA context is gone",
            s->dev->rank, s->name);
    hr_device_fail(s->dev, HR_ERR_DEVICE);
}

void hr__cuda_launch(hr_stream *s, const hr__launch *l)
{
    hr__gpu_stream *c = (hr__gpu_stream *)s;
    if (hr__failed(&s->dev->fail))
        return;
    hr__cuda_call *call = next_call(c);
    if (call == NULL) {
        context_is_gone(s);
        return;
    }
    call->s = s;
    call->kernel = l->kernel;
    call->name = l->name;
    call->mark = l->mark;
    call->span = hr__cuda_span_host(c, l);
    if (l->arg_bytes)
        memcpy(call->args, l->args, l->arg_bytes);
    atomic_store(&call->state, HR__CALL_QUEUED);
    c->head++;
    cudaError_t e = hr__cuda(s)->cudaLaunchHostFunc(c->native, run_call, call);
    if (!hr__cuda_ok(s->dev, s, e, "cudaLaunchHostFunc")) {
        atomic_store(&call->state, HR__CALL_DONE);
        c->head--;
    }
}

/* ---- work of the GPU --------------------------------------------------------------------------- */
void hr__cuda_launch_native(hr_stream *s, const hr__native_launch *n)
{
    hr__gpu_stream *c = (hr__gpu_stream *)s;
    if (hr__failed(&s->dev->fail))
        return;
    hr__cuda_enter(hr__cuda_device_of(s));
    hr__cuda_span *span = hr__cuda_span_begin(c, n->name, n->kind);
    hr_status st = n->enqueue(s, n->args);
    hr__cuda_span_end(c, span);
    if (st < 0) {
        hr__launch l = {.name = n->name};
        hr__mark_fill(s, &l);
        hr__launch_failed(s, n->name, &l.mark, st);
    }
}

void hr__cuda_copy(hr_stream *s, void *dst, const void *src, size_t bytes)
{
    hr__gpu_stream *c = (hr__gpu_stream *)s;
    if (hr__failed(&s->dev->fail))
        return;
    hr__cuda_span *span = hr__cuda_span_begin(c, "copy", HR_SPAN_BUSY);
    cudaError_t e =
        hr__cuda(s)->cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, c->native);
    hr__cuda_span_end(c, span);
    hr__cuda_ok(s->dev, s, e, "cudaMemcpyAsync");
}

void hr__cuda_fill(hr_stream *s, const char *name, void *dst, int byte, size_t bytes)
{
    hr__gpu_stream *c = (hr__gpu_stream *)s;
    if (hr__failed(&s->dev->fail))
        return;
    hr__cuda_span *span = hr__cuda_span_begin(c, name, HR_SPAN_BUSY);
    cudaError_t e = hr__cuda(s)->cudaMemsetAsync(dst, byte, bytes, c->native);
    hr__cuda_span_end(c, span);
    if (e == cudaErrorInvalidValue && hr__slab_owner(dst) == NULL) {
        (void)hr__cuda(s)->cudaGetLastError();
        hr__fill_by_kernel(s, name, dst, byte, bytes); /* memory of the host's */
    } else {
        hr__cuda_ok(s->dev, s, e, "cudaMemsetAsync");
    }
}
