/* Tensors: handles, claims, and what can be asked of them. Start at struct hr_tensor in
 * tensor_impl.h. Views and aliases are in view.c, copies in contents.c. */
#include "base/try.h"
#include "tensor/pool.h"
#include "tensor/tensor_impl.h"
#include "trace/probe.h"
#include <stdio.h>
#include <string.h>

/* ---- making --------------------------------------------------------------------------- */
static hr_status check_shape(const char *what, hr_dtype t, int ndim,
                             const int64_t *shape, int64_t *count)
{
    int64_t n = 1, bytes;
    bool empty = false;
    if (hr_dtype_bytes(t) == 0)
        return hr_fail(HR_ERR_INVALID, "dtype", "%s: %d is no element type", what,
                       (int)t);
    if (ndim < 0 || ndim > HR_MAX_DIMS || (ndim > 0 && !shape))
        return hr_fail(HR_ERR_INVALID, "shape", "%s: %d dimensions, not 0 to %d%s",
                       what, ndim, HR_MAX_DIMS, shape ? "" : ", shape is NULL");
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return hr_fail(HR_ERR_INVALID, "shape", "%s: dimension %d is %lld", what, i,
                           (long long)shape[i]);
        empty = empty || shape[i] == 0;
    }
    for (int i = 0; i < ndim && !empty; i++)
        if (__builtin_mul_overflow(n, shape[i], &n))
            return hr_fail(HR_ERR_INVALID, "shape", "%s: more elements than 2^63",
                           what);
    if (__builtin_mul_overflow(n, (int64_t)hr_dtype_bytes(t), &bytes))
        return hr_fail(HR_ERR_INVALID, "shape", "%s: more bytes than 2^63", what);
    *count = empty ? 0 : n;
    return HR_OK;
}

/* Takes one reference of `st`, and one claim if `claimed`; nothing after a failure. */
static hr_status make(hr_storage *st, bool claimed, size_t offset, hr_dtype dtype,
                      int ndim, const int64_t *shape, int64_t count, hr_tensor **out)
{
    hr_tensor *t = hr__pool_get(sizeof *t);
    if (!t)
        return hr_fail(HR_ERR_NOMEM, "nomem", "no memory for a tensor's record");
    atomic_init(&t->refs, 1);
    atomic_init(&t->keep, 1);
    atomic_init(&t->claimed, claimed);
    t->dtype = (uint8_t)dtype;
    t->ndim = (uint8_t)ndim;
    if (ndim > 0)
        memcpy(t->shape, shape, (size_t)ndim * sizeof *shape);
    t->count = count;
    t->offset = offset;
    t->storage = st;
    *out = t;
    return HR_OK;
}

hr_status hr__current_stream(const char *what, hr_stream **out)
{
    *out = hr_stream_current();
    if (!*out)
        return hr_fail(HR_ERR_STATE, "no_device",
                       "%s: this thread has no current device", what);
    return HR_OK;
}

hr_status hr_tensor_create(hr_dtype dtype, int ndim, const int64_t *shape,
                           hr_tensor **out)
{
    hr_stream *s;
    hr_storage *st;
    int64_t count;
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_tensor_create: `out` is NULL");
    *out = NULL;
    HR_TRY(check_shape("hr_tensor_create", dtype, ndim, shape, &count));
    HR_TRY(hr__current_stream("hr_tensor_create", &s));
    HR_TRY(hr__storage_make(s, (size_t)count * hr_dtype_bytes(dtype), &st));
    hr_status status = make(st, true, 0, dtype, ndim, shape, count, out);
    if (status < 0) {
        hr__storage_unclaim(st, NULL);
        hr__storage_unref(st);
    }
    return status;
}

hr_status hr_tensor_zeros(hr_dtype dtype, int ndim, const int64_t *shape,
                          hr_tensor **out)
{
    HR_TRY(hr_tensor_create(dtype, ndim, shape, out));
    if ((*out)->count == 0)
        return HR_OK;
    hr_status st =
        hr_fill(hr_stream_current(), hr_tensor_data(*out), 0, hr_tensor_bytes(*out));
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

hr_status hr_tensor_over(hr_storage *st, size_t byte_offset, hr_dtype dtype, int ndim,
                         const int64_t *shape, hr_tensor **out)
{
    int64_t count;
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_tensor_over: `out` is NULL");
    *out = NULL;
    if (!st)
        return hr_fail(HR_ERR_INVALID, "no_storage", "hr_tensor_over: no storage");
    HR_TRY(check_shape("hr_tensor_over", dtype, ndim, shape, &count));
    size_t bytes = (size_t)count * hr_dtype_bytes(dtype);
    if (byte_offset % hr_dtype_bytes(dtype) != 0)
        return hr_fail(HR_ERR_INVALID, "offset", "hr_tensor_over: offset %zu for %s",
                       byte_offset, hr_dtype_name(dtype));
    bool claimed = hr__storage_claim(st);
    if (!claimed)
        return hr_fail(HR_ERR_STATE, "freed", "hr_tensor_over: the bytes are gone");
    hr_status status = HR_OK;
    if (byte_offset > st->bytes || bytes > st->bytes - byte_offset)
        status = hr_fail(HR_ERR_INVALID, "bounds",
                         "hr_tensor_over: %zu bytes at %zu of a storage of %zu", bytes,
                         byte_offset, st->bytes);
    else if (count > 0 && (uintptr_t)st->data % hr_dtype_bytes(dtype) != 0)
        status = hr_fail(HR_ERR_INVALID, "alignment",
                         "hr_tensor_over: %s in a storage at %p", hr_dtype_name(dtype),
                         st->data);
    if (status >= 0)
        status = make(st, true, byte_offset, dtype, ndim, shape, count, out);
    if (status < 0)
        hr__storage_unclaim(st, NULL);
    else
        hr__storage_ref(st);
    return status;
}

hr_status hr__tensor_share(hr_tensor *t, size_t offset, int ndim, const int64_t *shape,
                           hr_tensor **out)
{
    int64_t count = t->count;
    *out = NULL;
    if (shape != t->shape || ndim != t->ndim)
        HR_TRY(check_shape("view", (hr_dtype)t->dtype, ndim, shape, &count));
    bool claimed = hr__storage_claim(t->storage);
    hr_status st =
        make(t->storage, claimed, offset, (hr_dtype)t->dtype, ndim, shape, count, out);
    if (st >= 0)
        hr__storage_ref(t->storage);
    else if (claimed)
        hr__storage_unclaim(t->storage, NULL);
    return st;
}

/* ---- handles and the claim ------------------------------------------------------------ */
hr_tensor *hr_tensor_retain(hr_tensor *t)
{
    /* From 0: a base that only its views kept; its claim is gone, the rest is there. */
    if (t && atomic_fetch_add(&t->refs, 1) == 0)
        atomic_fetch_add(&t->keep, 1);
    return t;
}

/* Returns the gradient, for the caller to release: chains of them need no recursion. */
static hr_tensor *unkeep(hr_tensor *t)
{
    if (!hr__count_drop(&t->keep))
        return NULL;
    hr_tensor *grad = t->grad;
    if (t->graph)
        t->graph->release(t->graph);
    if (t->base)
        hr_tensor_release(unkeep(t->base));
    hr__storage_unref(t->storage);
    hr__pool_put(t, sizeof *t);
    return grad;
}

void hr_tensor_release(hr_tensor *t)
{
    while (t && hr__count_drop(&t->refs)) {
        hr__tensor_unclaim(t, NULL);
        t = unkeep(t);
    }
}

bool hr__tensor_forget_base(hr_tensor *t)
{
    hr_tensor *base = t->base;
    if (hr_tensor_refs(t) != 1)
        return false;
    t->base = NULL;
    if (base)
        hr_tensor_release(unkeep(base));
    return true;
}

int hr_tensor_refs(const hr_tensor *t)
{
    return t ? atomic_load(&t->refs) : 0;
}

void hr__tensor_unclaim(hr_tensor *t, hr_stream *s)
{
    if (!atomic_load_explicit(&t->claimed, memory_order_relaxed))
        return;
    atomic_store_explicit(&t->claimed, false, memory_order_relaxed);
    hr__storage_unclaim(t->storage, s);
}

void hr_tensor_drop(hr_tensor *t, hr_stream *s)
{
    if (!t)
        return;
    HR_PROBE(.kind = HR_PROBE_FREE, .a = t);
    hr__tensor_unclaim(t, s);
}

bool hr_tensor_dropped(const hr_tensor *t)
{
    return t && !atomic_load(&t->claimed);
}

/* ---- questions ------------------------------------------------------------------------ */
hr_dtype hr_tensor_dtype(const hr_tensor *t)
{
    return t ? (hr_dtype)t->dtype : HR_F32;
}

int hr_tensor_ndim(const hr_tensor *t)
{
    return t ? t->ndim : 0;
}

const int64_t *hr_tensor_shape(const hr_tensor *t)
{
    return t ? t->shape : NULL;
}

int64_t hr_tensor_dim(const hr_tensor *t, int i)
{
    if (!t)
        return 0;
    int at = i < 0 ? i + t->ndim : i;
    return at >= 0 && at < t->ndim ? t->shape[at] : 0;
}

int64_t hr_tensor_count(const hr_tensor *t)
{
    return t ? t->count : 0;
}

size_t hr_tensor_bytes(const hr_tensor *t)
{
    return (size_t)hr_tensor_count(t) * hr_dtype_bytes(hr_tensor_dtype(t));
}

void *hr_tensor_data(const hr_tensor *t)
{
    if (!t || t->count == 0 || !t->storage->data)
        return NULL;
    return (char *)t->storage->data + t->offset;
}

float *hr_tensor_f32(const hr_tensor *t)
{
    return t && t->dtype == HR_F32 ? hr_tensor_data(t) : NULL;
}

hr_storage *hr_tensor_storage(const hr_tensor *t)
{
    return t ? t->storage : NULL;
}

hr_tensor *hr_tensor_base(const hr_tensor *t)
{
    return t ? t->base : NULL;
}

bool hr_tensor_same_shape(const hr_tensor *a, const hr_tensor *b)
{
    if (!a || !b || a->ndim != b->ndim)
        return false;
    return memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0;
}

const char *hr__shape_text(const hr_tensor *t, char buf[HR__SHAPE_TEXT])
{
    int at = snprintf(buf, HR__SHAPE_TEXT, "[");
    for (int i = 0; i < t->ndim; i++)
        at += snprintf(buf + at, (size_t)(HR__SHAPE_TEXT - at), "%s%lld", i ? ", " : "",
                       (long long)t->shape[i]);
    snprintf(buf + at, (size_t)(HR__SHAPE_TEXT - at), "]");
    return buf;
}

hr_status hr_tensor_check(const hr_tensor *t, const char *what)
{
    char shape[HR__SHAPE_TEXT];
    if (!t)
        return hr_fail(HR_ERR_INVALID, "no_tensor", "%s: no tensor", what);
    if (t->count == 0 || atomic_load(&t->storage->claims) > 0)
        return HR_OK;
    return hr_fail(HR_ERR_STATE, "freed", "%s: the bytes of tensor '%s' %s were freed",
                   what, t->name, hr__shape_text(t, shape));
}

void hr_tensor_set_name(hr_tensor *t, const char *name)
{
    if (t == NULL)
        return;
    snprintf(t->name, sizeof t->name, "%s", name ? name : "");
    hr_mem_set_name(hr_tensor_data(t), hr_tensor_bytes(t), t->name);
}

const char *hr_tensor_name(const hr_tensor *t)
{
    return t ? t->name : "";
}

hr_status hr_tensor_record_stream(hr_tensor *t, hr_stream *s)
{
    if (!t)
        return hr_fail(HR_ERR_INVALID, "no_tensor", "record_stream: no tensor");
    if (!s)
        return hr_fail(HR_ERR_STATE, "no_stream",
                       "record_stream: tensor '%s' on no stream", t->name);
    HR_PROBE(.kind = HR_PROBE_RECORD_STREAM, .a = t, .b = s);
    hr_storage_record_stream(t->storage, s);
    return HR_OK;
}

bool hr_tensor_is_symmetric(const hr_tensor *t)
{
    return t && t->storage->symmetric;
}
