/* The kernel of hr__put_small(): bytes that came as a parameter. */
#include "device/cuda/cuda_code.cuh"
#include "device/cuda/cuda_put_bytes.h"

HR_KERNEL hr_put(unsigned char *to, const __grid_constant__ hr__put_bytes from,
                 unsigned n)
{
    if (threadIdx.x < n)
        to[threadIdx.x] = from.at[threadIdx.x];
}
