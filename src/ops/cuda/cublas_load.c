/* Loads cuBLAS once; see cublas_load.h. */
#include "ops/cuda/cublas_load.h"
#include "base/try.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct function {
    const char *name;
    size_t at; /* in hr__cublas */
} functions[] = {
#define X(name) {#name, offsetof(hr__cublas, name)},
    HR__CUBLAS_MAP(X)
#undef X
};

static pthread_mutex_t load_mu = PTHREAD_MUTEX_INITIALIZER;
static hr__cublas loaded; /* constant once it is complete */
static bool complete;     /* load_mu */

static hr_status fill_in(hr__cublas *blas, void *library)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *f = dlsym(library, functions[i].name);
        if (f == NULL)
            return hr_fail(HR_ERR_UNSUPPORTED, "old_cublas",
                           "linear on CUDA: this cuBLAS has no function '%s'",
                           functions[i].name);
        memcpy((char *)blas + functions[i].at, &f, sizeof f);
    }
    return HR_OK;
}

static void *open_usual(void)
{
    static const char *const usual[] = {HR__CUBLAS_USUAL};
    void *library = NULL;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0] && library == NULL; i++)
        library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static hr_status load_locked(void)
{
    const char *path = getenv("HEADRACE_CUBLAS");
    void *library =
        path && path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : open_usual();
    if (library == NULL)
        return hr_fail(HR_ERR_UNSUPPORTED, "no_cublas",
                       "linear on CUDA: no cuBLAS can be loaded: %s", dlerror());
    HR_TRY(fill_in(&loaded, library)); /* which stays open in any case */
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
