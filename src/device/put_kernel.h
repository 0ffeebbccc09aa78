/* The kernel of put.h. */
#ifndef HR_PUT_KERNEL_H
#define HR_PUT_KERNEL_H
#include "device/cuda/cuda_put_bytes.h"
#include "device/kernel.h"

typedef struct hr__put_args {
    void *to;
    uint32_t n;
    hr__put_bytes bytes;
} hr__put_args;

hr_status hr__cuda_put(hr_stream *s, const void *args); /* where it is built */

#endif
