/* Work that a backend has beside host kernels: a kernel of a GPU, a library's call that takes its
 * stream. For rooms that know such work (ops/cuda, group/nccl). */
#ifndef HR_NATIVE_LAUNCH_H
#define HR_NATIVE_LAUNCH_H
#include "headrace/device.h"

typedef struct hr__native_launch {
    const char *name;  /* literal or interned */
    hr_span_kind kind; /* of its span: HR_SPAN_BUSY or HR_SPAN_TRANSFER */
    /* Puts the work on the native stream of `s` (hr_stream_native): at once, on the calling thread, with
     * the device current there. A failure, with hr_fail() saying why, fails the device. */
    hr_status (*enqueue)(hr_stream *s, const void *args);
    const void *args;           /* borrowed for the call */
    const hr_operand *operands; /* as in hr_launch() */
    int n_operands;
} hr__native_launch;

/* Can streams of this device take such work? */
bool hr__device_is_native(const hr_device *dev);

/* As hr_launch(): skipped once the device has failed, part of the open node, in the order of the
 * stream. ERR_INVALID; ERR_UNSUPPORTED "no_native" on a backend that has no such work. */
HR_RESULT hr_status hr__launch_native(hr_stream *s, const hr__native_launch *n);

#endif
