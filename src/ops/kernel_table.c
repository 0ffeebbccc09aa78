/* The kernels of the operators, each with all the forms that were built. */
#include "ops/kernels.h"

#define FORMS(name)                                                                    \
    const hr__kernel hr__k_##name = HR__KERNEL(hr__host_##name, hr__cuda_##name);
HR__OP_KERNELS(FORMS)
