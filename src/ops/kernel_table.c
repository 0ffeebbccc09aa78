/* The kernels of the operators, each with all the forms that were built. */
#include "ops/kernels.h"

#if HR_WITH_CUDA
#define FORMS(name) const hr__kernel hr__k_##name = {hr__host_##name, hr__cuda_##name};
#else
#define FORMS(name) const hr__kernel hr__k_##name = {hr__host_##name, NULL};
#endif
HR__OP_KERNELS(FORMS)
