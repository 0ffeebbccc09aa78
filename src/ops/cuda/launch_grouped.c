/* CUDA forms of products by expert; the kernels are in cuda_grouped.cu. How many rows an expert has only the
 * device knows, so there are blocks for the most tiles that R rows can make. */
#include "ops/cuda/cuda_ops.h"

static int64_t tiles(int64_t size)
{
    return hr__parts(size, HR_SIDE);
}

/* Each expert may begin a tile. */
static hr__cuda_grid by_rows(const hr__grouped_args *a, int64_t width)
{
    int64_t most = a->rows / HR_SIDE + a->experts;
    return hr__cuda_blocks(tiles(width), a->rows > 0 ? most : 0, 1);
}

hr_status hr__cuda_grouped(hr_stream *s, const void *args)
{
    hr__grouped_args a = *(const hr__grouped_args *)args;
    return HR__RUN_FOR(a.type, s, GROUPED, by_rows(&a, a.out), &a.y, &a.x, &a.w,
                       &a.offsets, &a.experts, &a.in, &a.out);
}

hr_status hr__cuda_grouped_dx(hr_stream *s, const void *args)
{
    hr__grouped_args a = *(const hr__grouped_args *)args;
    return HR__RUN_FOR(a.type, s, GROUPED_DX, by_rows(&a, a.in), &a.x, &a.y, &a.w,
                       &a.offsets, &a.experts, &a.in, &a.out);
}

hr_status hr__cuda_grouped_dw(hr_stream *s, const void *args)
{
    hr__grouped_args a = *(const hr__grouped_args *)args;
    hr__cuda_grid grid = hr__cuda_blocks(tiles(a.in), tiles(a.out), a.experts);
    return HR__RUN_FOR(a.type, s, GROUPED_DW, grid, &a.w, &a.y, &a.x, &a.offsets, &a.in,
                       &a.out);
}
