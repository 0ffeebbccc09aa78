/* Versions, GPUs and their attributes, words for errors. */
#include "double_impl.h"

#include <stdio.h>
#include <stdlib.h>

static int device_count(void)
{
    const char *n = getenv("HEADRACE_DOUBLE_DEVICES");
    return n ? (int)strtol(n, NULL, 10) : 1;
}

static _Thread_local int current;

int double_device(void)
{
    return current;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    ENTER();
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    ENTER();
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    ENTER();
    int n = device_count();
    *count = n > 0 ? n : 0;
    return double_end(n == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device)
{
    ENTER();
    if (device < 0 || device >= device_count())
        return double_end(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    ENTER();
    if (device < 0 || device >= device_count())
        return double_end(cudaErrorInvalidDevice);
    *value = (what == cudaDevAttrMemoryPoolsSupported ||
              what == cudaDevAttrConcurrentManagedAccess) &&
             !getenv("HEADRACE_DOUBLE_PLAIN");
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int cap, int device)
{
    ENTER();
    if (device < 0 || device >= device_count())
        return double_end(cudaErrorInvalidDevice);
    int n = snprintf(out, (size_t)cap, "0000:%02X:00.0", 0x3B + device);
    return double_end(n < cap ? cudaSuccess : cudaErrorInvalidValue);
}

static const struct words {
    cudaError_t e;
    const char *name, *text;
} words[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError",
     "initialization error"},
    {cudaErrorStubLibrary, "cudaErrorStubLibrary", "CUDA driver is a stub library"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
     "invalid resource handle"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorSystemNotReady, "cudaErrorSystemNotReady", "system not yet initialized"},
    {cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch",
     "system has unsupported display driver / cuda driver combination"},
    {cudaErrorCompatNotSupportedOnDevice, "cudaErrorCompatNotSupportedOnDevice",
     "forward compatibility was attempted on non supported HW"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

static const struct words *find(cudaError_t e)
{
    static const struct words none = {cudaErrorUnknown, "unrecognized error code",
                                      "unrecognized error code"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].e == e)
            return &words[i];
    return &none;
}

const char *cudaGetErrorName(cudaError_t e)
{
    return find(e)->name;
}

const char *cudaGetErrorString(cudaError_t e)
{
    return find(e)->text;
}
