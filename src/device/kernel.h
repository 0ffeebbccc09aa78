/* device/kernel.h: a kernel in all its forms, so that whoever launches it need not know where it will
 * run: the backend takes the form that it can. Internal. */
#ifndef HR_KERNEL_H
#define HR_KERNEL_H
#include "headrace/device.h"

/* Puts the work on the CUDA stream behind `s`, at once and without waiting; called on the issuing
 * thread. `args` are borrowed for the call. An error fails the device. */
typedef hr_status (*hr__cuda_issue)(hr_stream *s, const void *args);

typedef struct hr__kernel {
    hr_kernel host;
    /* NULL: not built; there the host form runs, on host memory only. */
    hr__cuda_issue cuda;
} hr__kernel;

/* For a file that is compiled with HR_WITH_CUDA=1 where CUDA forms are built. */
#if HR_WITH_CUDA
#define HR__KERNEL(host, cuda)                                                         \
    {                                                                                  \
        (host), (cuda)                                                                 \
    }
#else
#define HR__KERNEL(host, cuda)                                                         \
    {                                                                                  \
        (host), NULL                                                                   \
    }
#endif

/* As hr_launch(). */
HR_RESULT hr_status hr__launch_kernel(hr_stream *s, const char *name,
                                      const hr__kernel *kernel, const void *args,
                                      size_t arg_bytes, const hr_operand *operands,
                                      int n_operands);

#endif
