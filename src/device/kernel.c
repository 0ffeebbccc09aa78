/* Launches of kernels that have several forms; see kernel.h. */
#include "device/kernel.h"

hr_status hr__launch_kernel(hr_stream *s, const char *name, const hr__kernel *kernel,
                            const void *args, size_t arg_bytes,
                            const hr_operand *operands, int n_operands)
{
    return hr_launch(s, name, kernel->host, args, arg_bytes, operands, n_operands);
}
