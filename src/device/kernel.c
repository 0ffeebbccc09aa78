/* Launches of kernels that have several forms; see kernel.h. */
#include "device/kernel.h"

#include "device/device_ops.h"

hr_status hr__launch_kernel(hr_stream *s, const char *name, const hr__kernel *kernel,
                            const void *args, size_t arg_bytes,
                            const hr_operand *operands, int n_operands)
{
    if (kernel->cuda == NULL || s == NULL || s->dev->ops->launch_native == NULL)
        return hr_launch(s, name, kernel->host, args, arg_bytes, operands, n_operands);
    return hr__launch_native(s, &(hr__native_launch){.name = name,
                                                     .kind = HR_SPAN_BUSY,
                                                     .enqueue = kernel->cuda,
                                                     .args = args,
                                                     .operands = operands,
                                                     .n_operands = n_operands});
}
