/* CUDA form of hr__put_small(), whose kernel is in cuda_put.cu. */
#include "device/cuda/cuda_module.h"
#include "device/put.h"
#include "device/put_kernel.h"

_Static_assert(sizeof(hr__put_bytes) == HR__PUT_BYTES, "as many bytes on each side");

HR__CUDA_MODULE_OF_ONE(module, cuda_put, HR__CUDA_PUT_MAP)

hr_status hr__cuda_put(hr_stream *s, const void *args)
{
    hr__put_args a = *(const hr__put_args *)args;
    return HR__CUDA_RUN(s, &module, PUT, hr__cuda_blocks(1, 1, 1), &a.to, &a.bytes,
                        &a.n);
}
