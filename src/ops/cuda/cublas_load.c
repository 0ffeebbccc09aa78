/* Loads cuBLAS once; see cublas_load.h. */
#include "ops/cuda/cublas_load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static const hr__symbol functions[] = {
#define X(name) HR__SYMBOL_OF(hr__cublas, name)
    HR__CUBLAS_MAP(X)
#undef X
};

static pthread_mutex_t load_mu = PTHREAD_MUTEX_INITIALIZER;
static hr__cublas loaded; /* constant once it is complete */
static bool complete;     /* load_mu */

static hr_status load_locked(void)
{
    static const char *const usual[] = {HR__CUBLAS_USUAL};
    void *library = hr__library_open(getenv("HEADRACE_CUBLAS"), usual,
                                     sizeof usual / sizeof usual[0]);
    if (library == NULL)
        return hr_fail(HR_ERR_UNSUPPORTED, "no_cublas",
                       "linear on CUDA: no cuBLAS can be loaded: %s", dlerror());
    const char *lacks = hr__library_fill(library, &loaded, functions,
                                         sizeof functions / sizeof functions[0]);
    if (lacks)
        return hr_fail(HR_ERR_UNSUPPORTED, "old_cublas",
                       "linear on CUDA: this cuBLAS has no function '%s'", lacks);
    complete = true;
    return HR_OK;
}

hr_status hr__cublas_load(const hr__cublas **out)
{
    pthread_mutex_lock(&load_mu);
    hr_status st = complete ? HR_OK : load_locked();
    pthread_mutex_unlock(&load_mu);
    *out = &loaded;
    return st;
}

hr_status hr__cublas_status(const hr__cublas *blas, cublasStatus_t e, const char *call)
{
    if (e == CUBLAS_STATUS_SUCCESS)
        return HR_OK;
    return hr_fail(e == CUBLAS_STATUS_ALLOC_FAILED ? HR_ERR_NOMEM : HR_ERR_DEVICE,
                   "cublas", "%s: %s", call, blas->cublasGetStatusString(e));
}
