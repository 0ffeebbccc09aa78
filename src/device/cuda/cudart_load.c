/* Loads the CUDA runtime. What was loaded stays for the life of the process, as a runtime has threads
 * and handlers of its own; a process may hold several (tests do). */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "device/cuda/cudart.h"

static const hr__symbol functions[] = {
#define X(name) HR__SYMBOL_OF(hr__cudart, name)
    HR__CUDART_MAP(X)
#undef X
};

typedef struct runtime {
    hr__cudart rt;
    struct runtime *next;
} runtime;

static pthread_mutex_t runtimes_mu = PTHREAD_MUTEX_INITIALIZER;
static runtime *runtimes; /* runtimes_mu */

static hr_status fill_in(hr__cudart *rt, void *library, const char *path)
{
    const char *lacks = hr__library_fill(library, rt, functions,
                                         sizeof functions / sizeof functions[0]);
    if (lacks)
        return hr_fail(HR_ERR_UNSUPPORTED, "old_cudart",
                       "device 'cuda': off, because the CUDA runtime '%s' has no "
                       "function '%s'",
                       path, lacks);
    rt->double_of = dlsym(library, "headrace_cudart_double");
    snprintf(rt->path, sizeof rt->path, "%s", path);
    return HR_OK;
}

static hr_status add(void *library, const char *path, const hr__cudart **out)
{
    runtime *r = calloc(1, sizeof *r);
    if (r == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL,
                       "no memory for the table of the CUDA runtime");
    hr_status st = fill_in(&r->rt, library, path);
    if (st < 0) {
        free(r);
        return st;
    }
    r->next = runtimes;
    runtimes = r;
    *out = &r->rt;
    return HR_OK;
}

static hr_status load_locked(const char *path, const hr__cudart **out)
{
    for (runtime *r = runtimes; r; r = r->next) {
        if (strcmp(r->rt.path, path) == 0) {
            *out = &r->rt;
            return HR_OK;
        }
    }
    void *library = hr__library_open(path, NULL, 0);
    if (library == NULL)
        return hr_fail(HR_ERR_UNSUPPORTED, "no_cudart",
                       "device 'cuda': off, because no CUDA runtime can be loaded: %s",
                       dlerror());
    return add(library, path, out);
}

/* The first of the usual ones that is there; what is wrong with the first, if none is. */
static hr_status load_usual(const hr__cudart **out)
{
    static const char *const usual[] = {HR__CUDART_USUAL};
    hr_status st = HR_OK;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        st = load_locked(usual[i], out);
        if (st == HR_OK || strcmp(hr_last_reason(), "no_cudart") != 0)
            return st;
    }
    return st;
}

hr_status hr__cudart_load(const hr__cudart **out)
{
    const char *path = getenv("HEADRACE_CUDART");
    pthread_mutex_lock(&runtimes_mu);
    hr_status st = path && path[0] ? load_locked(path, out) : load_usual(out);
    pthread_mutex_unlock(&runtimes_mu);
    return st;
}
