/* CUDA forms of moe's kernels, which are in cuda_moe.cu. */
#include "device/cuda/cuda_module.h"
#include "moe/cuda/cuda_moe_list.h"
#include "moe/moe_kernels.h"

HR__CUDA_MODULE_OF_ONE(module, cuda_moe, HR__CUDA_MOE_MAP)

hr_status hr__cuda_moe_map(hr_stream *s, const void *args)
{
    hr__map_args a = *(const hr__map_args *)args;
    return HR__CUDA_RUN(s, &module, MOE_MAP, hr__cuda_blocks(a.local, a.ranks, 1), &a);
}

hr_status hr__cuda_moe_limits(hr_stream *s, const void *args)
{
    hr__limits_args a = *(const hr__limits_args *)args;
    return HR__CUDA_RUN(s, &module, MOE_LIMITS, hr__cuda_blocks(1, 1, 1), &a);
}

hr_status hr__cuda_moe_live(hr_stream *s, const void *args)
{
    hr__live_args a = *(const hr__live_args *)args;
    return HR__CUDA_RUN(s, &module, a.item == 2 ? MOE_LIVE_HALF : MOE_LIVE,
                        hr__cuda_flat(a.rows * a.width), &a.to, &a.from, &a.live,
                        &a.width);
}
