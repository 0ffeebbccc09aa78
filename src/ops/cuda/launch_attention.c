/* CUDA forms of attention; the kernels are in cuda_attention.cu. */
#include "ops/cuda/cuda_ops.h"

static hr_status check(const hr__attention_args *a)
{
    if (a->head_width > HR_HEAD_WIDTH)
        return hr_fail(HR_ERR_UNSUPPORTED, "head_width",
                       "attention on CUDA: heads are %lld wide, at most %d",
                       (long long)a->head_width, HR_HEAD_WIDTH);
    return HR_OK;
}

static hr__attention_shape shape_of(const hr__attention_args *a, const float *rotary)
{
    return (hr__attention_shape){.qkv = a->qkv,
                                 .dout = a->dout,
                                 .rotary = rotary,
                                 .lse = a->lse,
                                 .seq_len = a->seq_len,
                                 .heads = (int)a->heads,
                                 .d = (int)a->head_width};
}

static bool is_wide(const hr__attention_args *a)
{
    return a->head_width > HR_PASS;
}

/* A block has `own` arrays of `rows` rows, a tile of the others, and what each weighs. */
static hr__cuda_grid grid_of(const hr__attention_args *a, int64_t rows, int64_t own)
{
    int64_t d = a->head_width, cols = is_wide(a) ? HR_PASS : d;
    int64_t floats = own * rows * d + HR_TILE * (cols + 1) + rows * HR_TILE;
    return (hr__cuda_grid){a->sequences * a->heads, hr__parts(a->seq_len, rows), 1,
                           (size_t)floats * sizeof(float)};
}

static hr_status table(hr_stream *s, const hr__attention_args *args, void **out)
{
    hr__attention_args a = *args;
    HR_TRY(hr_mem_alloc(s, (size_t)(a.seq_len * a.head_width) * sizeof(float), out));
    hr_status st = HR__RUN(s, ROTARY, hr__cuda_flat(a.seq_len * (a.head_width / 2)),
                           out, &a.seq_len, &a.head_width, &a.rope_base);
    if (st < 0)
        hr_mem_free(*out, s);
    return st;
}

hr_status hr__cuda_attention(hr_stream *s, const void *args)
{
    hr__attention_args a = *(const hr__attention_args *)args;
    void *rotary;
    HR_TRY(check(&a));
    if (a.sequences == 0) /* then seq_len is any number */
        return HR_OK;
    HR_TRY(table(s, &a, &rotary));
    hr__attention_shape shape = shape_of(&a, rotary);
    hr_status st =
        is_wide(&a) ? HR__RUN_FOR(a.type, s, ATTENTION_WIDE,
                                  grid_of(&a, HR_WIDE_ROWS, 1), &shape, &a.out, &a.lse)
                    : HR__RUN_FOR(a.type, s, ATTENTION, grid_of(&a, HR_ROWS, 1), &shape,
                                  &a.out, &a.lse);
    hr_mem_free(rotary, s);
    return st;
}

static hr_status go_back(hr_stream *s, hr__attention_args a, const float *rotary,
                         float *dot)
{
    hr__attention_shape shape = shape_of(&a, rotary);
    int64_t rows = a.sequences * a.seq_len;
    hr__cuda_grid grid = grid_of(&a, is_wide(&a) ? HR_WIDE_BACK_ROWS : HR_BACK_ROWS, 2);
    shape.dot = dot;
    HR_TRY(HR__RUN_FOR(a.type, s, ATTENTION_DOT, hr__cuda_by_row(rows * a.heads), &dot,
                       &a.dout, &a.out, &rows, &shape.heads, &shape.d, &a.seq_len));
    if (is_wide(&a)) {
        HR_TRY(HR__RUN_FOR(a.type, s, ATTENTION_DQ_WIDE, grid, &shape, &a.dqkv));
        return HR__RUN_FOR(a.type, s, ATTENTION_DKV_WIDE, grid, &shape, &a.dqkv);
    }
    HR_TRY(HR__RUN_FOR(a.type, s, ATTENTION_DQ, grid, &shape, &a.dqkv));
    return HR__RUN_FOR(a.type, s, ATTENTION_DKV, grid, &shape, &a.dqkv);
}

hr_status hr__cuda_attention_back(hr_stream *s, const void *args)
{
    const hr__attention_args *a = args;
    void *rotary, *dot;
    if (a->sequences == 0)
        return HR_OK;
    HR_TRY(table(s, a, &rotary));
    hr_status st = hr_mem_alloc(
        s, (size_t)(a->sequences * a->heads * a->seq_len) * sizeof(float), &dot);
    if (st >= 0) {
        st = go_back(s, *a, rotary, dot);
        hr_mem_free(dot, s);
    }
    hr_mem_free(rotary, s);
    return st;
}
