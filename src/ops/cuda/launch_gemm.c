/* CUDA form of single products: cuBLAS, with a handle and a workspace a stream, so that bits depend on nothing
 * that other streams do. No atomics; f32 without TF32; of bf16 every sum is f32 to its end. */
#include "device/device_ops.h"
#include "ops/cuda/cublas_load.h"
#include "ops/cuda/cuda_ops.h"

#include <stdlib.h>

enum { WORKSPACE = 32 << 20 }; /* what cuBLAS recommends from sm_90 on */

/* Else sums that are split may be rounded to bf16 in between. */
static const cublasMath_t math =
    (cublasMath_t)(CUBLAS_DEFAULT_MATH |
                   CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);

typedef struct blas_stream {
    const hr__cublas *blas;
    cublasHandle_t handle;
    hr_device *dev;
    void *workspace;
} blas_stream;

static void blas_stream_free(void *held)
{
    blas_stream *b = held;
    if (b->handle)
        (void)b->blas->cublasDestroy_v2(b->handle);
    if (b->workspace)
        b->dev->ops->slab_release(b->dev, b->workspace, WORKSPACE);
    free(b);
}

/* The workspace comes after the stream, which forgets it. */
static hr_status set_up(blas_stream *b, hr_stream *s)
{
    const hr__cublas *blas = b->blas;
    HR_TRY(hr__cublas_status(blas, blas->cublasCreate_v2(&b->handle), "cublasCreate"));
    b->workspace = b->dev->ops->slab_reserve(b->dev, WORKSPACE);
    if (b->workspace == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL,
                       "linear on CUDA: no memory for the workspace of cuBLAS");
    HR_TRY(hr__cublas_status(blas,
                             blas->cublasSetStream_v2(b->handle, hr__cuda_stream(s)),
                             "cublasSetStream"));
    HR_TRY(hr__cublas_status(
        blas, blas->cublasSetWorkspace_v2(b->handle, b->workspace, WORKSPACE),
        "cublasSetWorkspace"));
    HR_TRY(hr__cublas_status(blas, blas->cublasSetMathMode(b->handle, math),
                             "cublasSetMathMode"));
    return hr__cublas_status(
        blas, blas->cublasSetAtomicsMode(b->handle, CUBLAS_ATOMICS_NOT_ALLOWED),
        "cublasSetAtomicsMode");
}

static hr_status blas_of(hr_stream *s, blas_stream **out)
{
    void **slot = hr__cuda_stream_slot(s, blas_stream_free);
    const hr__cublas *blas;
    *out = *slot;
    if (*slot)
        return HR_OK;
    HR_TRY(hr__cublas_load(&blas));
    blas_stream *b = calloc(1, sizeof *b);
    if (b == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "linear on CUDA: no memory");
    b->blas = blas;
    b->dev = hr_stream_device(s);
    hr_status st = set_up(b, s);
    if (st < 0) {
        blas_stream_free(b);
        return st;
    }
    *out = *slot = b;
    return HR_OK;
}

static cudaDataType_t cuda_type(hr_dtype type)
{
    return type == HR_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* cuBLAS has columns where we have rows: what is row-major to us is the transpose to it, and
 * c^T = b^T a^T. */
hr_status hr__cuda_gemm(hr_stream *s, const void *args)
{
    hr__gemm_args g = *(const hr__gemm_args *)args;
    const float one = 1, keep = g.add ? 1 : 0;
    blas_stream *b;
    if (g.m == 0 || g.n == 0)
        return HR_OK;
    if (g.k == 0)
        return g.add ? HR_OK
                     : hr__cuda_status(
                           hr__cuda(s),
                           hr__cuda(s)->cudaMemsetAsync(
                               g.c, 0, (size_t)(g.m * g.n) * hr_dtype_bytes(g.c_type),
                               hr__cuda_stream(s)),
                           "cudaMemsetAsync");
    HR_TRY(blas_of(s, &b));
    cudaDataType_t type = cuda_type(g.type);
    cublasStatus_t e = b->blas->cublasGemmEx(
        b->handle, g.b_across ? CUBLAS_OP_T : CUBLAS_OP_N,
        g.a_across ? CUBLAS_OP_T : CUBLAS_OP_N, (int)g.n, (int)g.m, (int)g.k, &one, g.b,
        type, (int)(g.b_across ? g.k : g.n), g.a, type, (int)(g.a_across ? g.m : g.k),
        &keep, g.c, cuda_type(g.c_type), (int)g.n, CUBLAS_COMPUTE_32F,
        CUBLAS_GEMM_DEFAULT);
    return hr__cublas_status(b->blas, e, "cublasGemmEx");
}
