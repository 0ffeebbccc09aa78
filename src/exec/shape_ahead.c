/* Shapes that vary: each goes ahead of its tensor, along the same channel. And those that are said
 * beforehand, which are held against what stages make. */
#include "base/try.h"
#include "device/put.h"
#include "exec/exec_impl.h"

#include <string.h>

static hr_status transfer(hr__wire *w, bool send)
{
    hr_p2p p = {send, send ? 1 : 0, w->shape_there, sizeof *w->shape_there};
    return hr_group_batch(w->group, &p, 1, w->stream);
}

hr_status hr__shape_send(hr__wire *w, const hr_tensor *t)
{
    hr__shape_ahead shape = {.dtype = hr_tensor_dtype(t), .ndim = hr_tensor_ndim(t)};
    memcpy(shape.dim, hr_tensor_shape(t), (size_t)shape.ndim * sizeof(int64_t));
    HR_TRY(hr__put_small(w->stream, "shape", w->shape_there, &shape, sizeof shape));
    return transfer(w, true);
}

hr_status hr__shape_recv(hr__wire *w)
{
    HR_TRY(transfer(w, false));
    HR_TRY(hr_copy(w->stream, &w->shape, w->shape_there, sizeof w->shape));
    return hr_event_record(w->ready, w->stream);
}

hr_status hr__shape_wait(hr__wire *w, hr_exec_shape *out)
{
    HR_TRY(hr_event_synchronize(w->ready));
    const hr__shape_ahead *s = &w->shape;
    if (s->ndim < 0 || s->ndim > HR_MAX_DIMS)
        return hr_fail(HR_ERR_MISMATCH, "exec_shapes",
                       "rank %d of the pipeline announces a tensor of %lld dimensions",
                       w->from, (long long)s->ndim);
    *out = (hr_exec_shape){(hr_dtype)s->dtype, (int)s->ndim, {0}};
    memcpy(out->dim, s->dim, sizeof out->dim);
    return HR_OK;
}

/* `t` is what `stage` takes in, or its gradient. */
hr_status hr__shape_check(const hr__step *x, int stage, const hr_tensor *t)
{
    const hr_exec_shape *s = x->e->shape ? &x->e->shape[stage] : NULL;
    if (!s ||
        (hr_tensor_dtype(t) == s->dtype && hr_tensor_ndim(t) == s->ndim &&
         memcmp(hr_tensor_shape(t), s->dim, (size_t)s->ndim * sizeof s->dim[0]) == 0))
        return HR_OK;
    return hr_fail(HR_ERR_INVALID, "exec_shapes",
                   "put out %s of %d dimensions, %zu bytes; stage %d takes %s of %d "
                   "dimensions, first %lld",
                   hr_dtype_name(hr_tensor_dtype(t)), hr_tensor_ndim(t),
                   hr_tensor_bytes(t), stage, hr_dtype_name(s->dtype), s->ndim,
                   s->ndim ? (long long)s->dim[0] : 0);
}
