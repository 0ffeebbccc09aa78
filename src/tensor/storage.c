/* Storages: bytes with claims, and handles that say nothing about the bytes. */
#include "base/try.h"
#include "tensor/foreign.h"
#include "tensor/pool.h"
#include "tensor/tensor_impl.h"

static hr_status new_storage(hr_stream *home, hr_storage **out)
{
    hr_storage *st = hr__pool_get(sizeof *st);
    if (!st)
        return hr_fail(HR_ERR_NOMEM, "nomem", "no memory for a storage's record");
    atomic_init(&st->refs, 1);
    atomic_init(&st->claims, 1);
    atomic_init(&st->handles, 0);
    atomic_init(&st->own_claim, false);
    atomic_init(&st->home_used, false);
    st->home = home;
    *out = st;
    return HR_OK;
}

hr_status hr__storage_make(hr_stream *s, size_t bytes, hr_storage **out)
{
    hr_storage *st;
    *out = NULL;
    HR_TRY(new_storage(s, &st));
    hr_status status = hr_mem_alloc(s, bytes, &st->data);
    if (status < 0) {
        hr__pool_put(st, sizeof *st);
        return status;
    }
    st->bytes = bytes;
    *out = st;
    return HR_OK;
}

static void give_to_caller(hr_storage *st)
{
    atomic_init(&st->handles, 1);
    atomic_init(&st->own_claim, true);
}

hr_status hr_storage_create(hr_stream *s, size_t bytes, hr_storage **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_storage_create: `out` is NULL");
    *out = NULL;
    if (!s)
        return hr_fail(HR_ERR_INVALID, "no_stream", "hr_storage_create: no stream");
    HR_TRY(hr__storage_make(s, bytes, out));
    give_to_caller(*out);
    return HR_OK;
}

hr_status hr_storage_wrap(hr_stream *home, void *ptr, size_t bytes,
                          void (*deleter)(void *ctx, void *ptr), void *ctx,
                          hr_storage **out)
{
    hr_storage *st;
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_storage_wrap: `out` is NULL");
    *out = NULL;
    if (!home)
        return hr_fail(HR_ERR_INVALID, "no_stream", "hr_storage_wrap: no home stream");
    if (!ptr && bytes > 0)
        return hr_fail(HR_ERR_INVALID, "no_memory",
                       "hr_storage_wrap: %zu bytes at NULL", bytes);
    HR_TRY(new_storage(home, &st));
    st->wrapped = true;
    st->data = ptr;
    st->bytes = bytes;
    st->deleter = deleter;
    st->deleter_ctx = ctx;
    give_to_caller(st);
    *out = st;
    return HR_OK;
}

/* ---- the end of the bytes ------------------------------------------------------------- */
static void free_bytes(hr_storage *st, hr_stream *s)
{
    void *data = st->data;
    size_t bytes = st->bytes;
    if (s && s != st->home && atomic_load(&st->home_used))
        hr_storage_record_stream(st, st->home);
    st->data = NULL;
    st->bytes = 0;
    if (st->wrapped)
        hr__foreign_delete(st, data, bytes, s ? s : st->home);
    else
        hr_mem_free(data, s);
}

bool hr__storage_claim(hr_storage *st)
{
    int n = atomic_load(&st->claims);
    while (n > 0)
        if (atomic_compare_exchange_weak(&st->claims, &n, n + 1))
            return true;
    return false;
}

void hr__storage_unclaim(hr_storage *st, hr_stream *s)
{
    bool home = !s || s == st->home;
    /* Said before the claim goes: afterwards the last claim may free the bytes. */
    if (atomic_load(&st->claims) > 1) {
        if (home)
            atomic_store(&st->home_used, true);
        else
            hr_storage_record_stream(st, s);
    }
    if (atomic_fetch_sub(&st->claims, 1) == 1)
        free_bytes(st, home ? NULL : s);
}

/* ---- handles -------------------------------------------------------------------------- */
void hr__storage_ref(hr_storage *st)
{
    atomic_fetch_add(&st->refs, 1);
}

void hr__storage_unref(hr_storage *st)
{
    if (!hr__count_drop(&st->refs))
        return;
    hr__pool_put(st->used_on, sizeof *st->used_on);
    hr__pool_put(st, sizeof *st);
}

hr_storage *hr_storage_retain(hr_storage *st)
{
    if (st) {
        atomic_fetch_add(&st->handles, 1);
        hr__storage_ref(st);
    }
    return st;
}

void hr_storage_release(hr_storage *st)
{
    if (!st)
        return;
    if (atomic_fetch_sub(&st->handles, 1) == 1 &&
        atomic_exchange(&st->own_claim, false))
        hr__storage_unclaim(st, NULL);
    hr__storage_unref(st);
}

void *hr_storage_data(const hr_storage *st)
{
    return st ? st->data : NULL;
}

size_t hr_storage_bytes(const hr_storage *st)
{
    return st ? st->bytes : 0;
}

hr_stream *hr_storage_home(const hr_storage *st)
{
    return st ? st->home : NULL;
}

int hr_storage_claims(const hr_storage *st)
{
    return st ? atomic_load(&st->claims) : 0;
}

void hr_storage_set_symmetric(hr_storage *st, bool symmetric)
{
    if (st)
        st->symmetric = symmetric;
}

static void remember_stream(hr_storage *st, hr_stream *s)
{
    struct hr__stream_set *set = st->used_on;
    if (!set)
        set = st->used_on = hr__pool_get(sizeof *set);
    for (int i = 0; set && i < set->n; i++)
        if (set->stream[i] == s)
            return;
    if (set && set->n < HR_MAX_STREAMS)
        set->stream[set->n++] = s;
    else /* no place to remember it: order home after it here and now */
        hr__order_after(st->home, s);
}

void hr_storage_record_stream(hr_storage *st, hr_stream *s)
{
    if (!st || !s || !st->data)
        return;
    if (st->wrapped)
        remember_stream(st, s);
    else
        hr_mem_record_stream(st->data, s);
}
