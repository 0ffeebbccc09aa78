/* A test double of the part of cuBLAS that Headrace calls: products by the processor's BLAS, as work of the GPU
 * on the stream that the double of the CUDA runtime made. It minds what cuBLAS minds: that a handle has been
 * created, that the stream comes before its workspace, that leading dimensions are wide enough, which types
 * go together. */
#include <cblas.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/bf16.h"

#define EXPORT __attribute__((visibility("default")))

struct cublasContext {
    cudaStream_t stream;
    void *workspace; /* NULL: none since the stream was set */
    size_t workspace_bytes;
};

typedef struct product {
    enum CBLAS_TRANSPOSE a_op, b_op;
    int m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const void *a, *b;
    void *c;
    cudaDataType_t type, c_type; /* of a and b, of c */
} product;

EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t *out)
{
    *out = calloc(1, sizeof **out);
    return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t h)
{
    if (h == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT const char *cublasGetStatusString(cublasStatus_t e)
{
    return e == CUBLAS_STATUS_INVALID_VALUE     ? "invalid value (of the test double)"
           : e == CUBLAS_STATUS_NOT_INITIALIZED ? "not initialized (of the test double)"
                                                : "failed (of the test double)";
}

EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t stream)
{
    if (h == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    h->stream = stream;
    h->workspace = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void *workspace,
                                            size_t bytes)
{
    if (h == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if ((size_t)workspace % 256 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    h->workspace = workspace;
    h->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode)
{
    const int wanted =
        CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    return h && (int)mode == wanted ? CUBLAS_STATUS_SUCCESS
                                    : CUBLAS_STATUS_INVALID_VALUE;
}

EXPORT cublasStatus_t cublasSetAtomicsMode(cublasHandle_t h, cublasAtomicsMode_t mode)
{
    return h && mode == CUBLAS_ATOMICS_NOT_ALLOWED ? CUBLAS_STATUS_SUCCESS
                                                   : CUBLAS_STATUS_INVALID_VALUE;
}

/* `cols` columns of `rows` as f32, as far apart; the caller's to free if it is a copy. */
static float *as_f32(const void *x, cudaDataType_t type, int ld, int rows, int cols)
{
    if (type == CUDA_R_32F)
        return (float *)(uintptr_t)x;
    float *copy = malloc(((size_t)ld * (size_t)cols + 1) * sizeof *copy);
    for (int j = 0; copy && j < cols; j++)
        for (int i = 0; i < rows; i++) {
            size_t at = (size_t)j * (size_t)ld + (size_t)i;
            copy[at] = hr__bf16_wide(((const hr__bf16 *)x)[at]);
        }
    return copy;
}

static void round_to(hr__bf16 *to, const float *from, int ld, int rows, int cols)
{
    for (int j = 0; j < cols; j++)
        for (int i = 0; i < rows; i++)
            to[(size_t)j * (size_t)ld + (size_t)i] =
                hr__bf16_near(from[(size_t)j * (size_t)ld + (size_t)i]);
}

/* Without memory c stays as it was, which tests see. */
static void run(void *arg)
{
    product *p = arg;
    const bool a_up = p->a_op == CblasNoTrans, b_up = p->b_op == CblasNoTrans;
    float *a = as_f32(p->a, p->type, p->lda, a_up ? p->m : p->k, a_up ? p->k : p->m);
    float *b = as_f32(p->b, p->type, p->ldb, b_up ? p->k : p->n, b_up ? p->n : p->k);
    float *c = as_f32(p->c, p->c_type, p->ldc, p->m, p->n);
    if (a && b && c)
        cblas_sgemm(CblasColMajor, p->a_op, p->b_op, p->m, p->n, p->k, p->alpha, a,
                    p->lda, b, p->ldb, p->beta, c, p->ldc);
    if (c && c != p->c)
        round_to(p->c, c, p->ldc, p->m, p->n);
    if (a != p->a)
        free(a);
    if (b != p->b)
        free(b);
    if (c != p->c)
        free(c);
    free(p);
}

static bool is_wide(int ld, cublasOperation_t op, int rows, int cols)
{
    int least = op == CUBLAS_OP_N ? rows : cols;
    return ld >= (least > 1 ? least : 1);
}

/* Through the runtime that made the stream, which HEADRACE_CUDART names. */
static cudaError_t put(cudaStream_t stream, product *p)
{
    int (*gpu_work)(void *stream, void (*fn)(void *arg), void *arg) = NULL;
    void *runtime = dlopen(getenv("HEADRACE_CUDART"), RTLD_NOW | RTLD_NOLOAD);
    void *f = runtime ? dlsym(runtime, "headrace_double_gpu_work") : NULL;
    if (f == NULL)
        return cudaErrorInitializationError;
    memcpy(&gpu_work, &f, sizeof f);
    cudaError_t e = (cudaError_t)gpu_work(stream, run, p);
    dlclose(runtime);
    return e;
}

/* Sums of f32: all of one type, or bf16 into f32. */
static bool go_together(cudaDataType_t a, cudaDataType_t b, cudaDataType_t c)
{
    return a == b && (a == CUDA_R_16BF || a == CUDA_R_32F) &&
           (c == a || c == CUDA_R_32F);
}

EXPORT cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t a_op,
                                   cublasOperation_t b_op, int m, int n, int k,
                                   const void *alpha, const void *a,
                                   cudaDataType_t a_type, int lda, const void *b,
                                   cudaDataType_t b_type, int ldb, const void *beta,
                                   void *c, cudaDataType_t c_type, int ldc,
                                   cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    if (h == NULL || h->workspace == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (m < 0 || n < 0 || k < 0 || !is_wide(lda, a_op, m, k) ||
        !is_wide(ldb, b_op, k, n) || ldc < (m > 1 ? m : 1))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (compute != CUBLAS_COMPUTE_32F || algo != CUBLAS_GEMM_DEFAULT ||
        !go_together(a_type, b_type, c_type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    product *p = malloc(sizeof *p);
    if (p == NULL)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *p = (product){.a_op = a_op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
                   .b_op = b_op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
                   .m = m,
                   .n = n,
                   .k = k,
                   .lda = lda,
                   .ldb = ldb,
                   .ldc = ldc,
                   .alpha = *(const float *)alpha,
                   .beta = *(const float *)beta,
                   .a = a,
                   .b = b,
                   .c = c,
                   .type = a_type,
                   .c_type = c_type};
    if (put(h->stream, p) == cudaSuccess)
        return CUBLAS_STATUS_SUCCESS;
    free(p);
    return CUBLAS_STATUS_EXECUTION_FAILED;
}
