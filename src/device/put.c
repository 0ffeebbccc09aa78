/* See put.h: the bytes travel as arguments of a launch. */
#include "device/put.h"
#include "device/put_kernel.h"

#include <string.h>

static hr_status put_kernel(const void *args, hr_team *team)
{
    const hr__put_args *a = args;
    memcpy(a->to, a->bytes.at, a->n);
    return HR_OK;
}

static const hr__kernel put_forms = HR__KERNEL(put_kernel, hr__cuda_put);

hr_status hr__put_small(hr_stream *s, const char *name, void *to, const void *bytes,
                        size_t n)
{
    hr__put_args args = {.to = to, .n = (uint32_t)n};
    if (n > HR__PUT_BYTES)
        return hr_fail(HR_ERR_INVALID, "launch_args",
                       "launch '%s': %zu bytes to put, at most %d", name, n,
                       HR__PUT_BYTES);
    memcpy(args.bytes.at, bytes, n);
    return hr__launch_kernel(s, name, &put_forms, &args, sizeof args,
                             &(hr_operand){to, n, HR_WRITE}, 1);
}
