/* moe/zero_copy_buffer.c: the life of the symmetric dispatcher's buffers, and their states. */
#include "moe/zero_copy_buffer.h"
#include "base/try.h" /* HR_TRY */
#include <math.h>
#include <stdlib.h>

/* ---- one buffer ----------------------------------------------------------------------- */
static void buffer_destroy(hr__buffer *b)
{
    if (b == NULL)
        return;
    hr_tensor_release(b->rows);
    hr_tensor_release(b->weights);
    hr_window_destroy(b->window);
    hr_event_destroy(b->last);
    free(b);
}

static hr_status buffer_init(const hr__zero_copy *zc, hr__buffer *b, bool weights)
{
    const int64_t shape[2] = {zc->capacity, zc->width};
    const size_t row_bytes = (size_t)zc->width * hr_dtype_bytes(zc->type);
    const size_t bytes = (size_t)zc->capacity * row_bytes, word = sizeof(float);
    hr_stream *home = hr_stream_current();

    b->weights_at = (bytes + word - 1) / word * word;
    HR_TRY(hr_event_create(hr_group_device(zc->g), &b->last));
    HR_TRY(hr_window_create(zc->g,
                            b->weights_at + (weights ? (size_t)zc->capacity * word : 0),
                            home, &b->window));
    hr_storage *st = hr_window_storage(b->window);

    HR_TRY(hr_tensor_over(st, 0, zc->type, 2, shape, &b->rows));
    if (weights)
        HR_TRY(hr_tensor_over(st, b->weights_at, HR_F32, 1, shape, &b->weights));
    b->idle_claims = hr_storage_claims(st);
    return HR_OK;
}

static hr_status buffer_create(const hr__zero_copy *zc, const char *name, bool weights,
                               hr__buffer **out)
{
    hr__buffer *b = calloc(1, sizeof *b);

    *out = NULL;
    if (b == NULL)
        return hr_fail(HR_ERR_NOMEM, "nomem", "dispatcher: no memory for a buffer");
    snprintf(b->name, sizeof b->name, "%s", name);
    hr_status st = buffer_init(zc, b, weights);
    if (st < 0) {
        buffer_destroy(b);
        return st;
    }
    *out = b;
    return HR_OK;
}

bool hr__buffer_holds(const hr__buffer *b, const hr_tensor *t)
{
    return hr_tensor_storage(t) == hr_window_storage(b->window) &&
           hr_tensor_data(t) == hr_tensor_data(b->rows);
}

/* ---- states --------------------------------------------------------------------------- */
static const char *state_name(hr__buffer_state s)
{
    static const char *const names[] = {
        [HR__FREE] = "FREE",         [HR__RESERVED] = "RESERVED",
        [HR__LANDING] = "LANDING",   [HR__LANDED] = "LANDED",
        [HR__RECEIVED] = "RECEIVED", [HR__STAGED] = "STAGED",
        [HR__INFLIGHT] = "INFLIGHT"};

    return names[s];
}

hr_status hr__buffer_step(hr__buffer *b, hr__buffer_state from, hr__buffer_state to,
                          const char *call)
{
    if (b->state != from)
        return hr_fail(HR_ERR_STATE, "buffer_state",
                       "%s: buffer %s is %s; it can become %s only from %s", call,
                       b->name, state_name(b->state), state_name(to), state_name(from));
    HR_TRY(hr_event_wait(b->last, hr_stream_current()));
    hr_storage_record_stream(hr_window_storage(b->window), hr_stream_current());
    b->state = to;
    return HR_OK;
}

hr_status hr__buffer_used(hr__buffer *b)
{
    return hr_event_record(b->last, hr_stream_current());
}

hr_status hr__buffer_consumed(const hr__zero_copy *zc, hr__buffer *b, const char *call)
{
    static const int nan_byte = 0xff; /* two or four of them are a NaN */

    if (zc->poison && hr_tensor_count(b->rows) > 0)
        HR_TRY(hr_fill(hr_stream_current(), hr_tensor_data(b->rows), nan_byte,
                       hr_tensor_bytes(b->rows)));
    HR_TRY(hr__buffer_step(b, b->state, HR__FREE, call));
    b->owner = NULL;
    return hr__buffer_used(b);
}

/* ---- the P ------------------------------------------------------------------------------ */
/* Whether a P is free follows from the claims on it, which the issuing thread makes and gives up: so
 * from the order of the calls alone, and all ranks choose the same one. */
static bool is_idle(const hr__buffer *b)
{
    return (b->state == HR__FREE || b->state == HR__RECEIVED) &&
           hr_storage_claims(hr_window_storage(b->window)) == b->idle_claims;
}

hr_status hr__buffer_reserve(hr__zero_copy *zc, hr__buffer **out)
{
    hr__buffer **at = &zc->p;
    char name[8];

    while (*at != NULL && !is_idle(*at))
        at = &(*at)->next;
    *out = *at;
    if (*at == NULL) {
        snprintf(name, sizeof name, "P%d", zc->n_p);
        HR_TRY(buffer_create(zc, name, true, at));
        *out = *at;
        zc->n_p++;
    }
    (*out)->state = HR__RESERVED;
    return HR_OK;
}

void hr__buffer_unreserve(hr__buffer *b)
{
    if (b != NULL && b->state == HR__RESERVED)
        b->state = HR__FREE;
}

/* ---- all of a dispatcher -------------------------------------------------------------------- */
static hr_status overflow_create(const hr_dispatcher_opts *o, hr__zero_copy *zc)
{
    const int local = o->experts / hr_group_size(o->tokens);
    const size_t bytes = sizeof *zc->overflow + (size_t)local * sizeof(int32_t);
    void *p;

    HR_TRY(hr_mem_alloc(o->counts_stream, bytes, &p));
    zc->overflow = p;
    return hr_fill(o->counts_stream, p, 0, bytes);
}

static hr_status create_all(const hr_dispatcher_opts *o, hr__zero_copy *zc)
{
    HR_TRY(overflow_create(o, zc));
    HR_TRY(buffer_create(zc, "F", false, &zc->f));
    return buffer_create(zc, "B", true, &zc->b);
}

static bool poison_wanted(int asked)
{
#ifdef HR_DEBUG
    return asked >= 0;
#else
    return asked > 0;
#endif
}

hr_status hr__zero_copy_create(const hr_dispatcher_opts *o, hr__zero_copy **out)
{
    const double even = (double)o->max_tokens * o->top_k;
    const double factor =
        o->capacity_factor > 0 ? o->capacity_factor : hr_group_size(o->tokens);
    hr__zero_copy *zc = calloc(1, sizeof *zc);

    *out = NULL;
    if (zc == NULL)
        return hr_fail(HR_ERR_NOMEM, "nomem", "dispatcher: no memory");
    zc->g = o->tokens;
    zc->capacity = (int64_t)ceil(even * factor);
    zc->width = o->width;
    zc->type = o->type;
    zc->max_tokens = o->max_tokens;
    zc->per_row = 1 / even;
    zc->poison = poison_wanted(o->poison);
    hr_status st = create_all(o, zc);
    if (st < 0) {
        hr__zero_copy_destroy(zc);
        return st;
    }
    *out = zc;
    return HR_OK;
}

void hr__zero_copy_reset(hr__zero_copy *zc)
{
    zc->f->state = zc->b->state = HR__FREE;
    zc->f->owner = zc->b->owner = NULL;
    for (hr__buffer *b = zc->p; b != NULL; b = b->next)
        b->state = HR__FREE;
}

void hr__zero_copy_destroy(hr__zero_copy *zc)
{
    if (zc == NULL)
        return;
    buffer_destroy(zc->f);
    buffer_destroy(zc->b);
    while (zc->p != NULL) {
        hr__buffer *b = zc->p;
        zc->p = b->next;
        buffer_destroy(b);
    }
    hr_mem_free(zc->overflow, NULL);
    free(zc);
}
