/* DLPack in and out: the same bytes under another library's handle, never a copy.
 *
 * Out: an alias of the tensor, with a claim of its own, lives until the taker calls the deleter.
 * A claim is given up by the issuing thread alone, and a deleter may be called by any (a garbage
 * collector's, a stream's): what comes back there is put aside until the issuing thread looks.
 * In: the other library's memory is wrapped; its deleter runs as that of any foreign memory does.
 * What this device handed out itself is unwrapped instead, and is the tensor it was.
 * Everything that could be refused is looked at before anything is taken. */
#include "base/try.h"
#include "tensor/dlpack_abi.h"
#include "tensor/tensor_impl.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct exported {
    union {
        struct DLManagedTensor plain;
        struct DLManagedTensorVersioned versioned;
    } as;
    hr_tensor *alias;
    hr_device *dev;
    int64_t shape[HR_MAX_DIMS], strides[HR_MAX_DIMS];
    struct exported *next; /* mu */
};

static pthread_mutex_t mu =
    PTHREAD_MUTEX_INITIALIZER;     /* no other lock is taken under it */
static struct exported *put_aside; /* mu; deleted on other threads */

static const struct {
    hr_dtype ours;
    struct hr__dl_dtype theirs;
} types[] = {
    {HR_F32, {HR__DL_FLOAT, 32, 1}}, {HR_BF16, {HR__DL_BFLOAT, 16, 1}},
    {HR_F16, {HR__DL_FLOAT, 16, 1}}, {HR_I32, {HR__DL_INT, 32, 1}},
    {HR_I64, {HR__DL_INT, 64, 1}},   {HR_U8, {HR__DL_UINT, 8, 1}},
};
enum { TYPES = sizeof types / sizeof types[0] };

/* What DLPack calls a device; type 0, which it has not, where it has no word for ours. Managed memory goes out
 * as that of its GPU, which every library knows. */
static struct hr__dl_device place_of(const hr_device *dev)
{
    const char *backend = hr_device_backend(dev);
    int32_t type = strcmp(backend, "host") == 0   ? HR__DL_CPU
                   : strcmp(backend, "cuda") == 0 ? HR__DL_CUDA
                                                  : 0;
    return (struct hr__dl_device){type, hr_device_ordinal(dev)};
}

/* ---- out ------------------------------------------------------------------------------ */
static void describe(struct exported *e, struct hr__dl_tensor *d)
{
    const hr_tensor *t = e->alias;
    int64_t stride = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        e->shape[i] = t->shape[i];
        e->strides[i] = stride;
        stride *= t->count ? t->shape[i] : 1; /* empty: the product might overflow */
    }
    *d = (struct hr__dl_tensor){.data = hr_tensor_data(t),
                                .device = place_of(e->dev),
                                .ndim = t->ndim,
                                .shape = e->shape,
                                .strides = e->strides};
    for (int i = 0; i < TYPES; i++)
        if (types[i].ours == (hr_dtype)t->dtype)
            d->dtype = types[i].theirs;
}

static void give_up(struct exported *e)
{
    hr_tensor_release(e->alias);
    free(e);
}

static void come_back(struct exported *e)
{
    if (hr_device_current() == e->dev) {
        give_up(e);
        return;
    }
    pthread_mutex_lock(&mu);
    e->next = put_aside;
    put_aside = e;
    pthread_mutex_unlock(&mu);
}

void hr_dlpack_collect(void)
{
    const hr_device *dev = hr_device_current();
    struct exported *mine = NULL;
    pthread_mutex_lock(&mu);
    for (struct exported **at = &put_aside; *at;) {
        struct exported *e = *at;
        if (e->dev == dev) {
            *at = e->next;
            e->next = mine;
            mine = e;
        } else {
            at = &e->next;
        }
    }
    pthread_mutex_unlock(&mu);
    while (mine) {
        struct exported *e = mine;
        mine = e->next;
        give_up(e);
    }
}

static void delete_plain(struct DLManagedTensor *self)
{
    come_back(self->manager_ctx);
}

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    come_back(self->manager_ctx);
}

static hr_status export_tensor(const char *call, hr_tensor *t, struct exported **out)
{
    hr_dlpack_collect();
    HR_TRY(hr_tensor_check(t, call));
    hr_device *dev = hr_stream_device(t->storage->home);
    if (place_of(dev).type == 0)
        return hr_fail(
            HR_ERR_UNSUPPORTED, "device",
            "%s: tensor '%s' is in memory of '%s'; only that of the CPU and of "
            "CUDA can be handed out",
            call, t->name, hr_device_backend(dev));
    struct exported *e = calloc(1, sizeof *e);
    if (!e)
        return hr_fail(HR_ERR_NOMEM, "nomem", "%s: no memory for its record", call);
    hr_status st = hr_tensor_alias(t, &e->alias);
    if (st < 0) {
        free(e);
        return st;
    }
    e->dev = dev;
    *out = e;
    return HR_OK;
}

hr_status hr_tensor_to_dlpack(hr_tensor *t, struct DLManagedTensor **out)
{
    struct exported *e;
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_tensor_to_dlpack: `out` is NULL");
    *out = NULL;
    HR_TRY(export_tensor("hr_tensor_to_dlpack", t, &e));
    describe(e, &e->as.plain.tensor);
    e->as.plain.manager_ctx = e;
    e->as.plain.deleter = delete_plain;
    *out = &e->as.plain;
    return HR_OK;
}

hr_status hr_tensor_to_dlpack_versioned(hr_tensor *t,
                                        struct DLManagedTensorVersioned **out)
{
    struct exported *e;
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out",
                       "hr_tensor_to_dlpack_versioned: `out` is NULL");
    *out = NULL;
    HR_TRY(export_tensor("hr_tensor_to_dlpack_versioned", t, &e));
    describe(e, &e->as.versioned.tensor);
    e->as.versioned.major = HR__DL_MAJOR;
    e->as.versioned.manager_ctx = e;
    e->as.versioned.deleter = delete_versioned;
    *out = &e->as.versioned;
    return HR_OK;
}

/* ---- in ------------------------------------------------------------------------------- */
static hr_status read_dtype(const char *call, struct hr__dl_dtype theirs, hr_dtype *out)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].theirs.code == theirs.code &&
            types[i].theirs.bits == theirs.bits &&
            types[i].theirs.lanes == theirs.lanes) {
            *out = types[i].ours;
            return HR_OK;
        }
    return hr_fail(HR_ERR_INVALID, "dtype",
                   "%s: elements of code %u, %u bits, %u lanes are none of f32, bf16, "
                   "f16, i32, i64, u8",
                   call, theirs.code, theirs.bits, theirs.lanes);
}

/* Elements, and that they lie side by side, last dimension fastest. */
static hr_status check_layout(const char *call, const struct hr__dl_tensor *d,
                              size_t element, int64_t *count)
{
    int64_t bytes = (int64_t)element, dense = 1;
    if (d->ndim < 0 || d->ndim > HR_MAX_DIMS || (d->ndim > 0 && !d->shape))
        return hr_fail(HR_ERR_INVALID, "shape", "%s: %d dimensions, not 0 to %d%s",
                       call, (int)d->ndim, HR_MAX_DIMS,
                       d->shape ? "" : ", shape is NULL");
    bool empty = false;
    for (int i = 0; i < d->ndim; i++) {
        if (d->shape[i] < 0)
            return hr_fail(HR_ERR_INVALID, "shape", "%s: dimension %d is %lld", call, i,
                           (long long)d->shape[i]);
        empty = empty || d->shape[i] == 0;
    }
    *count = 0;
    if (empty)
        return HR_OK;
    for (int i = d->ndim - 1; i >= 0; i--) {
        if (d->strides && d->shape[i] != 1 && d->strides[i] != dense)
            return hr_fail(HR_ERR_INVALID, "strides",
                           "%s: dimension %d has stride %lld, and %lld where tensors "
                           "are dense and row-major; make it contiguous first",
                           call, i, (long long)d->strides[i], (long long)dense);
        if (__builtin_mul_overflow(bytes, d->shape[i], &bytes))
            return hr_fail(HR_ERR_INVALID, "shape", "%s: more bytes than 2^63", call);
        dense *= d->shape[i]; /* not above `bytes` */
    }
    *count = dense;
    return HR_OK;
}

static hr_status check_place(const char *call, const struct hr__dl_tensor *d,
                             size_t element, int64_t count, hr_stream **home)
{
    HR_TRY(hr__current_stream(call, home));
    const hr_device *dev = hr_stream_device(*home);
    struct hr__dl_device here = place_of(dev), there = d->device;
    if (there.type == HR__DL_CUDA_MANAGED)
        there.type = HR__DL_CUDA;
    if (there.type != here.type || (here.type != HR__DL_CPU && there.id != here.id))
        return hr_fail(
            HR_ERR_UNSUPPORTED, "device",
            "%s: memory of device type %d, number %d, for '%s', whose own is of "
            "type %d, number %d; copy it there first",
            call, (int)d->device.type, (int)d->device.id, hr_device_backend(dev),
            (int)here.type, (int)here.id);
    uintptr_t at = (uintptr_t)d->data + d->byte_offset;
    if (count > 0 && (!d->data || at % element != 0))
        return hr_fail(HR_ERR_INVALID, d->data ? "alignment" : "no_memory",
                       "%s: %lld elements of %zu bytes at %p + %llu", call,
                       (long long)count, element, d->data,
                       (unsigned long long)d->byte_offset);
    return HR_OK;
}

/* The tensor keeps the claim of the storage; the storage's deleter gives `managed` back. */
static hr_status import_tensor(const char *call, const struct hr__dl_tensor *d,
                               void (*deleter)(void *ctx, void *ptr), void *managed,
                               hr_tensor **out)
{
    hr_stream *home;
    hr_storage *st;
    hr_dtype dtype;
    int64_t count;
    HR_TRY(read_dtype(call, d->dtype, &dtype));
    size_t element = hr_dtype_bytes(dtype);
    HR_TRY(check_layout(call, d, element, &count));
    HR_TRY(check_place(call, d, element, count, &home));
    void *data = count > 0 ? (char *)d->data + d->byte_offset : NULL;
    HR_TRY(hr_storage_wrap(home, data, (size_t)count * element, deleter, managed, &st));
    hr_status status = hr_tensor_over(st, 0, dtype, d->ndim, d->shape, out);
    if (status < 0)
        st->deleter = NULL; /* it stays with the caller */
    hr_storage_release(st);
    return status;
}

static void return_plain(void *managed, void *ptr)
{
    struct DLManagedTensor *m = managed;
    if (m->deleter)
        m->deleter(m);
}

static void return_versioned(void *managed, void *ptr)
{
    struct DLManagedTensorVersioned *m = managed;
    if (m->deleter)
        m->deleter(m);
}

/* What this device handed out is the same tensor again, in stream order like any other. */
static bool unwrap(struct exported *e, hr_tensor **out)
{
    if (e->dev != hr_device_current())
        return false;
    *out = e->alias;
    free(e);
    return true;
}

static hr_status check_given(const char *call, const void *managed, hr_tensor **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "%s: `out` is NULL", call);
    *out = NULL;
    if (!managed)
        return hr_fail(HR_ERR_INVALID, "no_tensor", "%s: no tensor", call);
    hr_dlpack_collect();
    return HR_OK;
}

hr_status hr_tensor_from_dlpack(struct DLManagedTensor *managed, hr_tensor **out)
{
    const char *call = "hr_tensor_from_dlpack";
    HR_TRY(check_given(call, managed, out));
    if (managed->deleter == delete_plain && unwrap(managed->manager_ctx, out))
        return HR_OK;
    return import_tensor(call, &managed->tensor, return_plain, managed, out);
}

hr_status hr_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed,
                                          hr_tensor **out)
{
    const char *call = "hr_tensor_from_dlpack_versioned";
    HR_TRY(check_given(call, managed, out));
    if (managed->major != HR__DL_MAJOR)
        return hr_fail(HR_ERR_UNSUPPORTED, "version", "%s: version %u.%u, not %d.x",
                       call, managed->major, managed->minor, HR__DL_MAJOR);
    if (managed->flags & HR__DL_READ_ONLY)
        return hr_fail(HR_ERR_UNSUPPORTED, "read_only",
                       "%s: its owner forbids writing, and tensors here may be "
                       "written to; copy it first",
                       call);
    if (managed->deleter == delete_versioned && unwrap(managed->manager_ctx, out))
        return HR_OK;
    return import_tensor(call, &managed->tensor, return_versioned, managed, out);
}
