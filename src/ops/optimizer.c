/* The optimiser's kernels: sum of squares for the global norm, AdamW in place, weights made of their masters.
 * No graph. */
#include "ops/kernels.h"
#include "ops/op.h"
#include <math.h>

hr_status hr_op_sum_squares(hr_tensor *g, double *sum)
{
    if (!g || !sum)
        return hr_fail(HR_ERR_INVALID, "operand", "sum_squares: %s is NULL",
                       g ? "sum" : "g");
    HR_TRY(hr__op_expect("sum_squares", "g", g, HR_F32, hr_tensor_ndim(g),
                         hr_tensor_shape(g)));
    int64_t count = hr_tensor_count(g);
    hr_stream *s = hr_stream_current();
    size_t bytes = (size_t)hr__parts(count, HR__FLAT_ITEMS) * sizeof(double);
    void *partial;
    HR_TRY(hr_mem_alloc(s, bytes, &partial));
    hr__sum_squares_args args = {
        .x = hr_tensor_f32(g), .partial = partial, .count = count};
    args.sum = sum;
    hr_status st = HR__LAUNCH("sum_squares", hr__k_sum_squares, args,
                              (hr_operand){sum, sizeof *sum, HR_READ_WRITE},
                              (hr_operand){partial, bytes, HR_WRITE}, HR__IN(g));
    hr_mem_free(partial, s);
    return st;
}

static hr_status check_adamw(const hr_tensor *w, const hr_tensor *g, const hr_tensor *m,
                             const hr_tensor *v, const hr_adamw_opts *o)
{
    if (!w || !o)
        return hr_fail(HR_ERR_INVALID, "operand", "adamw: %s is NULL",
                       w ? "opts" : "w");
    HR_CHECK_OPTS(o, hr_adamw_opts);
    int ndim = hr_tensor_ndim(w);
    const int64_t *shape = hr_tensor_shape(w);
    HR_TRY(hr__op_expect("adamw", "w", w, HR_F32, ndim, shape));
    HR_TRY(hr__op_expect("adamw", "g", g, HR_F32, ndim, shape));
    HR_TRY(hr__op_expect("adamw", "m", m, HR_F32, ndim, shape));
    HR_TRY(hr__op_expect("adamw", "v", v, HR_F32, ndim, shape));
    if (o->step < 1)
        return hr_fail(HR_ERR_INVALID, "step", "adamw: step is %lld, not 1 or more",
                       (long long)o->step);
    return HR_OK;
}

hr_status hr_op_adamw(hr_tensor *w, hr_tensor *g, hr_tensor *m, hr_tensor *v,
                      const hr_adamw_opts *opts)
{
    HR_TRY(check_adamw(w, g, m, v, opts));
    double step = (double)opts->step;
    hr__adamw_args args = {
        .w = hr_tensor_f32(w),
        .g = hr_tensor_f32(g),
        .m = hr_tensor_f32(m),
        .v = hr_tensor_f32(v),
        .count = hr_tensor_count(w),
        .rate = {.grad_scale = opts->grad_scale,
                 .beta1 = opts->beta1,
                 .beta2 = opts->beta2,
                 .eps = opts->eps,
                 .decay = opts->lr * opts->weight_decay,
                 .lr1 = (float)(opts->lr / (1 - pow(opts->beta1, step))),
                 .correct2 = (float)(1 / (1 - pow(opts->beta2, step)))},
    };
    return HR__LAUNCH("adamw", hr__k_adamw, args, HR__INOUT(w), HR__INOUT(m),
                      HR__INOUT(v), HR__IN(g));
}

static hr_status check_convert(const hr_tensor *from, const hr_tensor *to)
{
    if (!from || !to)
        return hr_fail(HR_ERR_INVALID, "operand", "convert: %s is NULL",
                       from ? "to" : "from");
    int ndim = hr_tensor_ndim(from);
    const int64_t *shape = hr_tensor_shape(from);
    HR_TRY(hr__op_expect("convert", "from", from, hr__op_type(from), ndim, shape));
    return hr__op_expect("convert", "to", to, hr__op_type(to), ndim, shape);
}

hr_status hr_op_convert(hr_tensor *from, hr_tensor *to)
{
    HR_TRY(check_convert(from, to));
    if (hr_tensor_dtype(from) == hr_tensor_dtype(to))
        return hr_tensor_copy(to, from);
    hr__convert_args args = {
        .to = hr_tensor_data(to),
        .from = hr_tensor_data(from),
        .count = hr_tensor_count(from),
        .type = hr_tensor_dtype(to),
    };
    return HR__LAUNCH("convert", hr__k_convert, args, HR__OUT(to), HR__IN(from));
}
