/* What is in a tensor: copies between tensors, and to and from host memory. */
#include "base/try.h"
#include "tensor/tensor_impl.h"
#include "trace/probe.h"

hr_status hr_tensor_copy(hr_tensor *dst, hr_tensor *src)
{
    hr_stream *s;
    HR_PROBE(.kind = HR_PROBE_COPY, .a = dst, .b = src);
    HR_TRY(hr_tensor_check(dst, "hr_tensor_copy, destination"));
    HR_TRY(hr_tensor_check(src, "hr_tensor_copy, source"));
    size_t bytes = hr_tensor_bytes(src);
    if (bytes != hr_tensor_bytes(dst))
        return hr_fail(HR_ERR_INVALID, "bytes", "hr_tensor_copy: %zu bytes to %zu",
                       bytes, hr_tensor_bytes(dst));
    if (bytes == 0 || hr_tensor_data(dst) == hr_tensor_data(src))
        return HR_OK;
    HR_TRY(hr__current_stream("hr_tensor_copy", &s));
    return hr_copy(s, hr_tensor_data(dst), hr_tensor_data(src), bytes);
}

static hr_status check_host(const char *what, const hr_tensor *t, const void *host,
                            size_t bytes)
{
    HR_TRY(hr_tensor_check(t, what));
    if (bytes != hr_tensor_bytes(t))
        return hr_fail(HR_ERR_INVALID, "bytes", "%s: %zu bytes of a tensor of %zu",
                       what, bytes, hr_tensor_bytes(t));
    if (!host && bytes > 0)
        return hr_fail(HR_ERR_INVALID, "no_memory", "%s: host memory is NULL", what);
    return HR_OK;
}

hr_status hr_tensor_read(hr_tensor *t, void *host, size_t bytes)
{
    hr_stream *s;
    HR_TRY(check_host("hr_tensor_read", t, host, bytes));
    HR_TRY(hr__current_stream("hr_tensor_read", &s));
    if (bytes > 0)
        HR_TRY(hr_copy(s, host, hr_tensor_data(t), bytes));
    return hr_stream_synchronize(s);
}

hr_status hr_tensor_write(hr_tensor *t, const void *host, size_t bytes)
{
    hr_stream *s;
    HR_TRY(check_host("hr_tensor_write", t, host, bytes));
    HR_TRY(hr__current_stream("hr_tensor_write", &s));
    if (bytes > 0)
        HR_TRY(hr_copy(s, hr_tensor_data(t), host, bytes));
    return hr_stream_synchronize(s);
}
