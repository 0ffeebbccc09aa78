/* CUDA forms of what goes element by element or row by row; the kernels are in cuda_rows.cu. */
#include "ops/cuda/cuda_ops.h"

hr_status hr__cuda_add(hr_stream *s, const void *args)
{
    hr__add_args a = *(const hr__add_args *)args;
    return HR__RUN_FOR(a.type, s, ADD, hr__cuda_flat(a.count), &a.out, &a.a, &a.b,
                       &a.count);
}

hr_status hr__cuda_convert(hr_stream *s, const void *args)
{
    hr__convert_args a = *(const hr__convert_args *)args;
    if (a.type == HR_BF16)
        return HR__RUN(s, NARROW, hr__cuda_flat(a.count), &a.to, &a.from, &a.count);
    return HR__RUN(s, WIDEN, hr__cuda_flat(a.count), &a.to, &a.from, &a.count);
}

/* ---- rows by index ---- */
static hr_status gather(hr_stream *s, hr__rows_args a, hr__index_rule rule)
{
    return HR__RUN_FOR(a.type, s, GATHER, hr__cuda_by_row(a.n), &a.out, &a.x, &a.map,
                       &a.n, &a.width, &rule);
}

hr_status hr__cuda_gather(hr_stream *s, const void *args)
{
    const hr__rows_args *a = args;
    return gather(s, *a, hr__cuda_index_rule(s, "permute", "source", 0, a->from));
}

hr_status hr__cuda_combine(hr_stream *s, const void *args)
{
    hr__rows_args a = *(const hr__rows_args *)args;
    hr__index_rule rule = hr__cuda_index_rule(s, "permute", "slot", 0, a.from);
    return HR__RUN_FOR(a.type, s, COMBINE, hr__cuda_by_row(a.n), &a.out, &a.x, &a.map,
                       &a.n, &a.top_k, &a.width, &rule);
}

hr_status hr__cuda_permute_probs(hr_stream *s, const void *args)
{
    hr__probs_args a = *(const hr__probs_args *)args;
    hr__index_rule rule = hr__cuda_index_rule(s, "permute_probs", "slot", 0, a.count);
    int back = a.back;
    return HR__RUN(s, PERMUTE_PROBS, hr__cuda_flat(a.count), &a.choices, &a.slots,
                   &a.slot, &a.count, &back, &rule);
}

static hr__index_rule id_rule(const hr_stream *s, const hr__embedding_args *a)
{
    return hr__cuda_index_rule(s, "embedding", "ids", 0, a->vocabulary);
}

hr_status hr__cuda_embedding(hr_stream *s, const void *args)
{
    const hr__embedding_args *a = args;
    return gather(s,
                  (hr__rows_args){.x = a->table,
                                  .out = a->rows,
                                  .map = a->ids,
                                  .n = a->n,
                                  .width = a->width,
                                  .type = a->type},
                  id_rule(s, a));
}

hr_status hr__cuda_embedding_back(hr_stream *s, const void *args)
{
    hr__embedding_args a = *(const hr__embedding_args *)args;
    hr__index_rule rule = id_rule(s, &a);
    return HR__RUN_FOR(a.type, s, EMBEDDING_BACK, hr__cuda_by_row(a.vocabulary),
                       &a.table, &a.rows, &a.ids, &a.n, &a.width, &a.vocabulary, &rule);
}

/* ---- rmsnorm ---- */
hr_status hr__cuda_rmsnorm(hr_stream *s, const void *args)
{
    hr__rmsnorm_args a = *(const hr__rmsnorm_args *)args;
    return HR__RUN_FOR(a.type, s, RMSNORM, hr__cuda_by_row(a.n), &a.y, &a.x, &a.g, &a.n,
                       &a.width, &a.eps);
}

/* Sums of parts of rows, then over the parts. */
static hr_status sum_dg(hr_stream *s, hr__rmsnorm_args a, const float *factors)
{
    int64_t parts = hr__parts(a.n, HR__NORM_ROWS), rows = HR__NORM_ROWS;
    hr__cuda_grid grid = hr__cuda_blocks(hr__parts(a.width, HR_WARP), parts, 1);
    HR_TRY(HR__RUN_FOR(a.type, s, RMSNORM_PART, grid, &a.partial, &a.x, &a.dy, &factors,
                       &a.n, &a.width, &rows));
    return HR__RUN(s, ADD_ROWS, hr__cuda_flat(a.width), &a.dg, &a.partial, &parts,
                   &a.width);
}

hr_status hr__cuda_rmsnorm_back(hr_stream *s, const void *args)
{
    hr__rmsnorm_args a = *(const hr__rmsnorm_args *)args;
    void *factors = NULL;
    if (a.dg)
        HR_TRY(hr_mem_alloc(s, (size_t)a.n * sizeof(float), &factors));
    hr_status st = HR__RUN_FOR(a.type, s, RMSNORM_DX, hr__cuda_by_row(a.n), &a.y,
                               &factors, &a.x, &a.g, &a.dy, &a.n, &a.width, &a.eps);
    if (st >= 0 && a.dg)
        st = sum_dg(s, a, factors);
    hr_mem_free(factors, s);
    return st;
}

/* ---- swiglu ---- */
hr_status hr__cuda_swiglu(hr_stream *s, const void *args)
{
    hr__swiglu_args a = *(const hr__swiglu_args *)args;
    return HR__RUN_FOR(a.type, s, SWIGLU, hr__cuda_by_row(a.n), &a.y, &a.x, &a.scale,
                       &a.live, &a.n, &a.width);
}

hr_status hr__cuda_swiglu_back(hr_stream *s, const void *args)
{
    hr__swiglu_args a = *(const hr__swiglu_args *)args;
    return HR__RUN_FOR(a.type, s, SWIGLU_BACK, hr__cuda_by_row(a.n), &a.y, &a.dscale,
                       &a.x, &a.scale, &a.dy, &a.live, &a.n, &a.width);
}
