/* Libraries of GPU code, and kernels. Any code can be loaded; what runs is the kernel of that name that was
 * compiled for the processor (tests/doubles/simt). */
#include "double_impl.h"
#include "simt/simt.h"

#include <stdlib.h>

struct CUlib_st {
    handle handle;
};

cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code,
                                enum cudaJitOption *jit, void **jit_values,
                                unsigned n_jit, enum cudaLibraryOption *options,
                                void **values, unsigned n_options)
{
    ENTER();
    cudaLibrary_t library = code ? calloc(1, sizeof *library) : NULL;
    if (library == NULL)
        return double_end(code ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
    double_register(&library->handle, LIBRARY);
    *out = library;
    return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    cudaError_t e = double_enter();
    if (!double_knows(library, LIBRARY))
        return double_end(cudaErrorInvalidResourceHandle);
    double_forget(&library->handle);
    free(library);
    return e;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t library,
                                 const char *name)
{
    ENTER();
    const simt_kernel *k = simt_find(name);
    if (!double_knows(library, LIBRARY))
        return double_end(cudaErrorInvalidResourceHandle);
    if (k == NULL)
        return double_end(cudaErrorSymbolNotFound);
    *out = (cudaKernel_t)(uintptr_t)k;
    return cudaSuccess;
}

/* ---- launches ---- */
typedef struct launch {
    const simt_kernel *kernel;
    simt_dim grid, block;
    size_t shared;
    _Alignas(16) char packed[SIMT_PACKED];
} launch;

/* What is wrong with a kernel ends the context, as an illegal instruction does on hardware. */
static void run_kernel(work *w)
{
    launch *l = w->kernel;
    const char *wrong = NULL;
    if (double_touch_begin(w)) {
        headrace_double_gpu_works(true);
        wrong = simt_run(l->kernel, l->grid, l->block, l->shared, l->packed);
        headrace_double_gpu_works(false);
        double_touch_end();
    }
    if (wrong)
        double_die(l->kernel->name, wrong);
    free(l);
}

static simt_dim dim(dim3 d)
{
    return (simt_dim){d.x, d.y, d.z};
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel,
                                void **args)
{
    ENTER();
    launch *l = malloc(sizeof *l);
    if (l == NULL)
        return double_end(cudaErrorMemoryAllocation);
    l->kernel = kernel;
    l->grid = dim(config->gridDim);
    l->block = dim(config->blockDim);
    l->shared = config->dynamicSmemBytes;
    cudaError_t e = cudaErrorInvalidValue;
    if (config->numAttrs == 0 &&
        simt_pack(kernel, args, l->packed, sizeof l->packed) == 0)
        e = double_put(config->stream, &(work){.run = run_kernel, .kernel = l});
    if (e != cudaSuccess)
        free(l);
    return double_end(e);
}
