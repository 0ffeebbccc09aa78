/* CUDA forms of the loss and the optimiser; the kernels are in cuda_loss.cu. */
#include "ops/cuda/cuda_ops.h"

hr_status hr__cuda_cross_entropy(hr_stream *s, const void *args)
{
    hr__cross_entropy_args a = *(const hr__cross_entropy_args *)args;
    hr__index_rule rule =
        hr__cuda_index_rule(s, "cross_entropy", "targets", -1, a.vocabulary);
    HR_TRY(HR__RUN_FOR(a.type, s, LOG_SUM_EXP, hr__cuda_blocks(a.n, 1, 1), &a.lse,
                       &a.logits, &a.targets, &a.vocabulary, &rule));
    return HR__RUN_FOR(a.type, s, LOSS_SUM, hr__cuda_blocks(1, 1, 1), &a.loss, &a.lse,
                       &a.logits, &a.targets, &a.n, &a.vocabulary, &a.scale);
}

hr_status hr__cuda_cross_entropy_back(hr_stream *s, const void *args)
{
    hr__cross_entropy_args a = *(const hr__cross_entropy_args *)args;
    return HR__RUN_FOR(a.type, s, CROSS_ENTROPY_BACK, hr__cuda_blocks(a.n, 1, 1),
                       &a.dlogits, &a.logits, &a.lse, &a.targets, &a.loss, &a.scale,
                       &a.vocabulary);
}

hr_status hr__cuda_sum_squares(hr_stream *s, const void *args)
{
    hr__sum_squares_args a = *(const hr__sum_squares_args *)args;
    int64_t parts = hr__parts(a.count, HR__FLAT_ITEMS), size = HR__FLAT_ITEMS;
    HR_TRY(HR__RUN(s, SUM_SQUARES, hr__cuda_blocks(parts, 1, 1), &a.partial, &a.x,
                   &a.count, &size));
    return HR__RUN(s, SUM_PARTS, hr__cuda_blocks(1, 1, 1), &a.sum, &a.partial, &parts);
}

hr_status hr__cuda_adamw(hr_stream *s, const void *args)
{
    hr__adamw_args a = *(const hr__adamw_args *)args;
    return HR__RUN(s, ADAMW, hr__cuda_flat(a.count), &a.w, &a.g, &a.m, &a.v, &a.count,
                   &a.rate);
}
