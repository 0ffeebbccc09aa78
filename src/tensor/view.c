/* Views (another shape, with a base) and aliases (no base), over the same storage. */
#include "base/try.h"
#include "tensor/tensor_impl.h"

static hr_status make_view(hr_tensor *t, size_t offset, int ndim, const int64_t *shape,
                           hr_tensor **out)
{
    HR_TRY(hr__tensor_share(t, offset, ndim, shape, out));
    hr_tensor *base = t->base ? t->base : t;
    atomic_fetch_add(&base->keep, 1);
    (*out)->base = base;
    return HR_OK;
}

static hr_status check_args(const char *what, const hr_tensor *t, hr_tensor **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "%s: `out` is NULL", what);
    *out = NULL;
    if (!t)
        return hr_fail(HR_ERR_INVALID, "no_tensor", "%s: no tensor", what);
    return HR_OK;
}

hr_status hr_tensor_view(hr_tensor *t, int ndim, const int64_t *shape, hr_tensor **out)
{
    HR_TRY(check_args("hr_tensor_view", t, out));
    HR_TRY(make_view(t, t->offset, ndim, shape, out));
    int64_t count = (*out)->count;
    if (count == t->count)
        return HR_OK;
    hr_tensor_release(*out);
    *out = NULL;
    return hr_fail(HR_ERR_INVALID, "shape",
                   "hr_tensor_view: %lld elements of a tensor of %lld",
                   (long long)count, (long long)t->count);
}

hr_status hr_tensor_rows(hr_tensor *t, int64_t begin, int64_t end, hr_tensor **out)
{
    int64_t shape[HR_MAX_DIMS] = {0}, row = 1;
    HR_TRY(check_args("hr_tensor_rows", t, out));
    if (t->ndim == 0 || begin < 0 || begin > end || end > t->shape[0])
        return hr_fail(HR_ERR_INVALID, "bounds",
                       "hr_tensor_rows: rows %lld to %lld of %lld", (long long)begin,
                       (long long)end, (long long)hr_tensor_dim(t, 0));
    shape[0] = end - begin;
    for (int i = 1; i < t->ndim; i++) {
        shape[i] = t->shape[i];
        row = t->count ? row * shape[i] : 0; /* empty: the product might overflow */
    }
    size_t skip = (size_t)(begin * row) * hr_dtype_bytes((hr_dtype)t->dtype);
    return make_view(t, t->offset + skip, t->ndim, shape, out);
}

hr_status hr_tensor_alias(hr_tensor *t, hr_tensor **out)
{
    HR_TRY(check_args("hr_tensor_alias", t, out));
    return hr__tensor_share(t, t->offset, t->ndim, t->shape, out);
}
