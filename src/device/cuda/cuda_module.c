/* Kernels of the GPU by name, loaded once a runtime; see cuda_module.h. */
#include "device/cuda/cuda_module.h"
#include "base/try.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Complete before it can be seen, then constant. */
struct hr__cuda_loaded {
    struct hr__cuda_loaded *next;
    const hr__cudart *rt;
    cudaKernel_t kernel[];
};

static pthread_mutex_t load_mu = PTHREAD_MUTEX_INITIALIZER;

static struct hr__cuda_loaded *find(const hr__cuda_module *m, const hr__cudart *rt)
{
    struct hr__cuda_loaded *l = atomic_load_explicit(&m->loaded, memory_order_acquire);
    while (l && l->rt != rt)
        l = l->next;
    return l;
}

/* The kernels of `library` that are not there yet. */
static hr_status take_kernels(const hr__cuda_module *m, struct hr__cuda_loaded *l,
                              cudaLibrary_t library)
{
    for (int i = 0; i < m->n_kernels; i++) {
        if (l->kernel[i])
            continue;
        cudaError_t e =
            l->rt->cudaLibraryGetKernel(&l->kernel[i], library, m->names[i]);
        if (e == cudaErrorSymbolNotFound) {
            l->kernel[i] = NULL;
            (void)l->rt->cudaGetLastError();
            continue;
        }
        HR_TRY(hr__cuda_status(l->rt, e, "cudaLibraryGetKernel"));
    }
    return HR_OK;
}

static hr_status fill(const hr__cuda_module *m, struct hr__cuda_loaded *l,
                      cudaLibrary_t *library)
{
    for (int c = 0; c < m->n_code; c++) {
        HR_TRY(hr__cuda_status(l->rt,
                               l->rt->cudaLibraryLoadData(&library[c], m->code[c], NULL,
                                                          NULL, 0, NULL, NULL, 0),
                               "cudaLibraryLoadData"));
        HR_TRY(take_kernels(m, l, library[c]));
    }
    for (int i = 0; i < m->n_kernels; i++)
        if (l->kernel[i] == NULL)
            return hr_fail(HR_ERR_DEVICE, "no_kernel",
                           "the CUDA runtime finds no kernel '%s' in what was built",
                           m->names[i]);
    return HR_OK;
}

static hr_status load_locked(hr__cuda_module *m, const hr__cudart *rt,
                             struct hr__cuda_loaded **out)
{
    struct hr__cuda_loaded *l =
        calloc(1, sizeof *l + (size_t)m->n_kernels * sizeof l->kernel[0]);
    cudaLibrary_t *library = calloc((size_t)m->n_code, sizeof(cudaLibrary_t));
    hr_status st = HR_ERR_NOMEM;
    if (l && library) {
        l->rt = rt;
        st = fill(m, l, library);
    } else {
        hr_fail(st, NULL, "no memory for the kernels of the GPU");
    }
    for (int c = 0; st < 0 && library && c < m->n_code; c++)
        if (library[c])
            (void)rt->cudaLibraryUnload(library[c]);
    free(library);
    if (st < 0) {
        free(l);
        return st;
    }
    l->next = atomic_load_explicit(&m->loaded, memory_order_relaxed);
    atomic_store_explicit(&m->loaded, l, memory_order_release);
    *out = l;
    return HR_OK;
}

static hr_status get(hr__cuda_module *m, const hr__cudart *rt,
                     struct hr__cuda_loaded **out)
{
    hr_status st = HR_OK;
    *out = find(m, rt);
    if (*out)
        return HR_OK;
    pthread_mutex_lock(&load_mu);
    *out = find(m, rt);
    if (*out == NULL)
        st = load_locked(m, rt, out);
    pthread_mutex_unlock(&load_mu);
    return st;
}

hr_status hr__cuda_module_run(hr_stream *s, hr__cuda_module *m, int which,
                              hr__cuda_grid grid, void **args)
{
    const hr__cudart *rt = hr__cuda(s);
    struct hr__cuda_loaded *l;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return HR_OK;
    if (grid.x > INT32_MAX || grid.y > UINT16_MAX || grid.z > UINT16_MAX)
        return hr_fail(HR_ERR_INVALID, "shape",
                       "kernel '%s': %lld x %lld x %lld blocks, more than a GPU takes",
                       m->names[which], (long long)grid.x, (long long)grid.y,
                       (long long)grid.z);
    HR_TRY(get(m, rt, &l));
    cudaLaunchConfig_t config;
    memset(&config, 0, sizeof config);
    config.gridDim.x = (unsigned)grid.x;
    config.gridDim.y = (unsigned)grid.y;
    config.gridDim.z = (unsigned)grid.z;
    config.blockDim.x = HR_THREADS;
    config.blockDim.y = config.blockDim.z = 1;
    config.dynamicSmemBytes = grid.shared;
    config.stream = hr__cuda_stream(s);
    return hr__cuda_status(
        rt, rt->cudaLaunchKernelExC(&config, (const void *)l->kernel[which], args),
        "cudaLaunchKernelExC");
}

hr__index_rule hr__cuda_index_rule(const hr_stream *s, const char *op, const char *what,
                                   int32_t least, int64_t limit)
{
    return (hr__index_rule){hr__cuda_fault_of(s), op, what, limit, least};
}
