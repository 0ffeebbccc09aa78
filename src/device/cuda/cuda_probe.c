/* Can CUDA be used here, and if not, why: one sentence from what the runtime answers. And the words for
 * every later error of it. */
#include "base/try.h"
#include "device/cuda/cudart.h"

#include <stdlib.h>

/* What people can do something about. */
static const struct reason {
    cudaError_t e;
    const char *why;
} reasons[] = {
    {cudaErrorInitializationError, "the driver cannot be started"},
    {cudaErrorStubLibrary,
     "the libcuda.so.1 that was found is the toolkit's stub and no driver"},
    {cudaErrorInsufficientDriver, "the driver is older than the CUDA runtime needs"},
    {cudaErrorNoDevice, "the driver sees no GPU"},
    {cudaErrorSystemNotReady,
     "the GPUs are not ready yet (is their fabric manager running?)"},
    {cudaErrorSystemDriverMismatch,
     "the driver's library and its kernel module are of different versions"},
    {cudaErrorCompatNotSupportedOnDevice,
     "this GPU cannot use a driver library that is newer than its kernel module"},
    {cudaErrorUnknown, "the driver reports an unknown error"},
};

static hr_status off(const char *why)
{
    return hr_fail(HR_ERR_UNSUPPORTED, "no_cuda", "device 'cuda': off, because %s",
                   why);
}

static hr_status off_by_code(const hr__cudart *rt, cudaError_t e)
{
    char why[256];
    const char *known = NULL;
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].e == e)
            known = reasons[i].why;
    snprintf(why, sizeof why, "%s (%s, %d)", known ? known : rt->cudaGetErrorString(e),
             rt->cudaGetErrorName(e), (int)e);
    (void)rt->cudaGetLastError();
    return off(why);
}

hr_status hr__cudart_probe(const hr__cudart *rt, int *devices)
{
    int driver = -1, count = 0;
    cudaError_t e = rt->cudaDriverGetVersion(&driver);
    if (e == cudaSuccess)
        e = rt->cudaGetDeviceCount(&count);
    if (e == cudaErrorInsufficientDriver && driver == 0) {
        (void)rt->cudaGetLastError();
        return off("no NVIDIA driver is installed (there is no libcuda.so.1)");
    }
    if (e != cudaSuccess)
        return off_by_code(rt, e);
    if (count <= 0)
        return off("the driver counts no GPU");
    *devices = count;
    return HR_OK;
}

hr_status hr__cuda_status(const hr__cudart *rt, cudaError_t e, const char *call)
{
    if (e == cudaSuccess)
        return HR_OK;
    (void)rt->cudaGetLastError();
    return hr_fail(e == cudaErrorMemoryAllocation ? HR_ERR_NOMEM : HR_ERR_DEVICE,
                   "cuda", "%s: %s (%s, %d)", call, rt->cudaGetErrorString(e),
                   rt->cudaGetErrorName(e), (int)e);
}
