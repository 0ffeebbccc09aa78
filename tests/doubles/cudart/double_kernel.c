/* Libraries of GPU code: any code can be loaded. Kernels are not run here. */
#include "double_impl.h"

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
    return double_end(cudaErrorSymbolNotFound);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel,
                                void **args)
{
    ENTER();
    return double_end(cudaErrorInvalidResourceHandle);
}
