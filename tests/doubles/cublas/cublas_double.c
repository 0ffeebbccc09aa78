/* A test double of the part of cuBLAS that Headrace calls: products by the processor's BLAS, as work of the GPU
 * on the stream that the double of the CUDA runtime made. It minds what cuBLAS minds: that a handle has been
 * created, that the stream comes before its workspace, that leading dimensions are wide enough. */
#include <cblas.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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
    const float *a, *b;
    float *c;
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
    return h && mode == CUBLAS_DEFAULT_MATH ? CUBLAS_STATUS_SUCCESS
                                            : CUBLAS_STATUS_INVALID_VALUE;
}

EXPORT cublasStatus_t cublasSetAtomicsMode(cublasHandle_t h, cublasAtomicsMode_t mode)
{
    return h && mode == CUBLAS_ATOMICS_NOT_ALLOWED ? CUBLAS_STATUS_SUCCESS
                                                   : CUBLAS_STATUS_INVALID_VALUE;
}

static void run(void *arg)
{
    product *p = arg;
    cblas_sgemm(CblasColMajor, p->a_op, p->b_op, p->m, p->n, p->k, p->alpha, p->a,
                p->lda, p->b, p->ldb, p->beta, p->c, p->ldc);
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

EXPORT cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t a_op,
                                     cublasOperation_t b_op, int m, int n, int k,
                                     const float *alpha, const float *a, int lda,
                                     const float *b, int ldb, const float *beta,
                                     float *c, int ldc)
{
    if (h == NULL || h->workspace == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (m < 0 || n < 0 || k < 0 || !is_wide(lda, a_op, m, k) ||
        !is_wide(ldb, b_op, k, n) || ldc < (m > 1 ? m : 1))
        return CUBLAS_STATUS_INVALID_VALUE;
    product *p = malloc(sizeof *p);
    if (p == NULL)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *p = (product){a_op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
                   b_op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
                   m,
                   n,
                   k,
                   lda,
                   ldb,
                   ldc,
                   *alpha,
                   *beta,
                   a,
                   b,
                   c};
    if (put(h->stream, p) == cudaSuccess)
        return CUBLAS_STATUS_SUCCESS;
    free(p);
    return CUBLAS_STATUS_EXECUTION_FAILED;
}
