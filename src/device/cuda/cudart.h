/* The functions of the CUDA runtime, in one list that is typed by the toolkit's headers and filled by
 * dlopen and dlsym: nothing of ours needs a library of CUDA, and another one can take its place
 * (HEADRACE_CUDART, a path). Loading is in cudart_load.c.
 *
 *     hr__cuda(s)->cudaMemsetAsync(ptr, 0, bytes, hr__cuda_stream(s))
 */
#ifndef HR_CUDART_H
#define HR_CUDART_H
#include "base/shared_library.h"
#include "device/cuda/cuda_fault.h"
#include "headrace/device.h"

/* With it the headers rename what works on streams, and stream 0 is another one in each thread. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) ||                                     \
    defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#error "Headrace is built without per-thread default streams"
#endif
#include <cuda_runtime_api.h>

/* Every function that is called, and no other: a runtime that lacks one is refused. */
#define HR__CUDART_MAP(X)                                                              \
    X(cudaDriverGetVersion)                                                            \
    X(cudaRuntimeGetVersion)                                                           \
    X(cudaGetDeviceCount)                                                              \
    X(cudaGetErrorName)                                                                \
    X(cudaGetErrorString)                                                              \
    X(cudaGetLastError)                                                                \
    X(cudaSetDevice)                                                                   \
    X(cudaDeviceGetAttribute)                                                          \
    X(cudaDeviceGetPCIBusId)                                                           \
    X(cudaDeviceGetStreamPriorityRange)                                                \
    X(cudaStreamCreateWithPriority)                                                    \
    X(cudaStreamDestroy)                                                               \
    X(cudaStreamQuery)                                                                 \
    X(cudaStreamWaitEvent)                                                             \
    X(cudaEventCreateWithFlags)                                                        \
    X(cudaEventDestroy)                                                                \
    X(cudaEventRecord)                                                                 \
    X(cudaEventQuery)                                                                  \
    X(cudaEventElapsedTime)                                                            \
    X(cudaMemPoolCreate)                                                               \
    X(cudaMemPoolDestroy)                                                              \
    X(cudaMemPoolSetAttribute)                                                         \
    X(cudaMallocFromPoolAsync)                                                         \
    X(cudaFreeAsync)                                                                   \
    X(cudaMallocManaged)                                                               \
    X(cudaFree)                                                                        \
    X(cudaHostAlloc)                                                                   \
    X(cudaFreeHost)                                                                    \
    X(cudaPointerGetAttributes)                                                        \
    X(cudaMemcpyAsync)                                                                 \
    X(cudaMemsetAsync)                                                                 \
    X(cudaLaunchHostFunc)                                                              \
    X(cudaLibraryLoadData)                                                             \
    X(cudaLibraryUnload)                                                               \
    X(cudaLibraryGetKernel)                                                            \
    X(cudaLaunchKernelExC)

typedef struct hr__cudart {
    HR__CUDART_MAP(HR__SYMBOL_FIELD)
    const char
        *double_of; /* what a test double calls itself; NULL: it is the real one */
    char path[256]; /* what was loaded */
} hr__cudart;

/* The runtime that HEADRACE_CUDART names, else the first of the usual ones. Each is loaded once and
 * stays: threads of its own may run.
 * Errors: ERR_UNSUPPORTED "no_cudart" with what the loader said, "old_cudart" with what is missing. */
HR_RESULT hr_status hr__cudart_load(const hr__cudart **out);

/* Can it be used on this machine, and with how many devices? ERR_UNSUPPORTED "no_cuda", saying why
 * not in one sentence. */
HR_RESULT hr_status hr__cudart_probe(const hr__cudart *rt, int *devices);

/* OK, or ERR_NOMEM, ERR_DEVICE "cuda", with the call and the runtime's words. What the runtime keeps as
 * its last error is cleared, as far as it lets itself be. */
HR_RESULT hr_status hr__cuda_status(const hr__cudart *rt, cudaError_t e,
                                    const char *call);

/* ---- for those who launch on a CUDA device: `s` is a stream of one ------------------------- */
const hr__cudart *hr__cuda(const hr_stream *s);
cudaStream_t hr__cuda_stream(const hr_stream *s);

/* Room for one pointer of the caller's that lives with the stream (the handle of a library): NULL at
 * first; `free` gets it, unless it is NULL still, when the stream goes, drained. */
void **hr__cuda_stream_slot(hr_stream *s, void (*free)(void *held));

/* Of the device. */
hr__cuda_fault *hr__cuda_fault_of(const hr_stream *s);

#endif
