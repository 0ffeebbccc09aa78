/* The operators' CUDA kernels, as they lie in the library. */
#include "ops/cuda/cuda_ops.h"

extern const unsigned long long hr__fatbin_cuda_attention[], hr__fatbin_cuda_grouped[],
    hr__fatbin_cuda_loss[], hr__fatbin_cuda_routing[], hr__fatbin_cuda_rows[];

static const void *const code[] = {hr__fatbin_cuda_attention, hr__fatbin_cuda_grouped,
                                   hr__fatbin_cuda_loss, hr__fatbin_cuda_routing,
                                   hr__fatbin_cuda_rows};

static const char *const names[] = {
#define NAME(number, name) #name,
    HR__OPS_CUDA_MAP(NAME)
#undef NAME
};

hr__cuda_module hr__ops_cuda = HR__CUDA_MODULE(code, names);
