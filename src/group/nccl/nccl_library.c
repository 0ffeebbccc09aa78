/* Loads NCCL once; see nccl_library.h. */
#include "group/nccl/nccl_library.h"
#include "base/try.h"
#include "headrace/group_nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static const hr__symbol functions[] = {
#define X(name) HR__SYMBOL_OF(hr__nccl, name)
    HR__NCCL_MAP(X)
#undef X
};

static pthread_mutex_t load_mu = PTHREAD_MUTEX_INITIALIZER;
static hr__nccl loaded; /* constant once it is complete */
static bool complete;   /* load_mu */

static hr_status load_locked(void)
{
    static const char *const usual[] = {HR__NCCL_USUAL};
    void *library = hr__library_open(getenv("HEADRACE_NCCL"), usual,
                                     sizeof usual / sizeof usual[0]);
    if (library == NULL)
        return hr_fail(HR_ERR_UNSUPPORTED, "no_nccl",
                       "groups over NCCL: off, because no NCCL can be loaded: %s",
                       dlerror());
    const char *lacks = hr__library_fill(library, &loaded, functions,
                                         sizeof functions / sizeof functions[0]);
    if (lacks)
        return hr_fail(HR_ERR_UNSUPPORTED, "old_nccl",
                       "groups over NCCL: off, because this NCCL has no function '%s'",
                       lacks);
    HR_TRY(hr__nccl_status(&loaded, loaded.ncclGetVersion(&loaded.version), NULL,
                           "ncclGetVersion"));
    loaded.double_of = dlsym(library, "headrace_nccl_double");
    complete = true;
    return HR_OK;
}

hr_status hr__nccl_load(const hr__nccl **out)
{
    pthread_mutex_lock(&load_mu);
    hr_status st = complete ? HR_OK : load_locked();
    pthread_mutex_unlock(&load_mu);
    *out = &loaded;
    return st;
}

hr_status hr__nccl_load_for(const hr__cudart *rt, const hr__nccl **out)
{
    HR_TRY(hr__nccl_load(out));
    if (((*out)->double_of != NULL) == (rt->double_of != NULL))
        return HR_OK;
    return hr_fail(HR_ERR_UNSUPPORTED, "no_nccl",
                   "groups over NCCL: off, because %s is a test double and %s is not",
                   rt->double_of ? "the CUDA runtime" : "NCCL",
                   rt->double_of ? "NCCL" : "the CUDA runtime");
}

hr_status hr__nccl_status(const hr__nccl *lib, ncclResult_t e, ncclComm_t comm,
                          const char *call)
{
    if (e == ncclSuccess || e == ncclInProgress)
        return HR_OK;
    const char *more = lib->ncclGetLastError ? lib->ncclGetLastError(comm) : NULL;
    bool says = more && more[0];
    return hr_fail(HR_ERR_DEVICE, "nccl", "%s: %s%s%.300s%s", call,
                   lib->ncclGetErrorString(e), says ? " (" : "", says ? more : "",
                   says ? ")" : "");
}

/* ---- for people ---------------------------------------------------------------------------- */
static hr_status probe(const hr__nccl **out)
{
    const hr__cudart *rt;
    int devices;
    HR_TRY(hr__cudart_load(&rt));
    HR_TRY(hr__cudart_probe(rt, &devices));
    return hr__nccl_load_for(rt, out);
}

const char *hr_nccl_library(const char **why)
{
    static _Thread_local char words[640];
    const hr__nccl *lib;
    if (probe(&lib) < 0) {
        snprintf(words, sizeof words, "%s", hr_last_error());
        if (why)
            *why = words;
        return NULL;
    }
    int v = lib->version;
    snprintf(words, sizeof words, "%s%d.%d.%d",
             lib->double_of ? "NCCL on test double, " : "NCCL ", v / 10000,
             v / 100 % 100, v % 100);
    return words;
}
