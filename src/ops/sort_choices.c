/* sort_choices: where each (token, choice) goes when the copies are sorted by expert. */
#include "ops/kernels.h"
#include "ops/op.h"

hr_status hr_op_sort_choices(hr_tensor *index, int experts, hr_tensor **source,
                             hr_tensor **slot, hr_tensor **counts)
{
    HR_TRY(hr__op_out("sort_choices", source));
    HR_TRY(hr__op_out("sort_choices", slot));
    HR_TRY(hr__op_out("sort_choices", counts));
    HR_TRY(hr__op_expect("sort_choices", "index", index, HR_I32,
                         HR__DIMS(HR__ANY, HR__ANY)));
    if (experts < 1)
        return hr_fail(HR_ERR_INVALID, "experts",
                       "sort_choices: experts is %d, not positive", experts);
    int64_t n = hr_tensor_dim(index, 0), k = hr_tensor_dim(index, 1);
    if (k > 0 && n > INT32_MAX / k)
        return hr_fail(HR_ERR_INVALID, "shape",
                       "sort_choices: index is [%lld,%lld], more copies than 32 bits "
                       "number",
                       (long long)n, (long long)k);
    hr_tensor *from = NULL, *to = NULL, *count = NULL;
    hr_status st;
    HR_TRY_GOTO(st, hr_tensor_create(HR_I32, HR__DIMS(n * k), &from), fail);
    HR_TRY_GOTO(st, hr_tensor_create(HR_I32, HR__DIMS(n, k), &to), fail);
    HR_TRY_GOTO(st, hr_tensor_create(HR_I32, HR__DIMS(experts), &count), fail);
    hr__sort_args args = {
        .index = hr__op_i32(index),
        .source = hr__op_i32(from),
        .slot = hr__op_i32(to),
        .counts = hr__op_i32(count),
        .n = n,
        .top_k = k,
        .experts = experts,
    };
    HR_TRY_GOTO(st,
                HR__LAUNCH("sort_choices", hr__k_sort_choices, args, HR__OUT(from),
                           HR__OUT(to), HR__OUT(count), HR__IN(index)),
                fail);
    *source = from;
    *slot = to;
    *counts = count;
    return HR_OK;
fail:
    hr_tensor_release(count);
    hr_tensor_release(to);
    hr_tensor_release(from);
    return st;
}
