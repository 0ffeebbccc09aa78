/* Launches: work queued on a stream, with a copy of its arguments. */
#include "base/try.h"
#include "device/device_ops.h"

#include <string.h>

static hr_status check_launch(const hr_stream *s, const char *name, hr_kernel kernel,
                              const void *args, size_t arg_bytes,
                              const hr_operand *operands, int n)
{
    const char *missing = !s                    ? "stream"
                          : !name               ? "name"
                          : !kernel             ? "kernel"
                          : !args && arg_bytes  ? "arguments"
                          : !operands && n != 0 ? "operands"
                                                : NULL;
    if (missing)
        return hr_fail(HR_ERR_INVALID, "launch", "launch '%s': no %s", name ? name : "",
                       missing);
    if (arg_bytes > HR_LAUNCH_ARGS)
        return hr_fail(HR_ERR_INVALID, "launch_args",
                       "launch '%s': %zu bytes of arguments, at most %d", name,
                       arg_bytes, HR_LAUNCH_ARGS);
    if (n < 0)
        return hr_fail(HR_ERR_INVALID, "launch", "launch '%s': %d operands", name, n);
    return HR_OK;
}

/* A host kernel that touches memory it cannot reach ends the process; so it is not launched. */
static hr_status check_reach(const hr_stream *s, const char *name,
                             const hr_operand *operands, int n)
{
    for (int i = 0; i < n; i++) {
        const hr_device *owner =
            operands[i].ptr ? hr__slab_owner(operands[i].ptr) : NULL;
        if (owner && owner->apart)
            return hr_fail(HR_ERR_UNSUPPORTED, "host_kernel",
                           "launch '%s' on '%s': a kernel of the host, which cannot "
                           "reach memory of a '%s' device",
                           name, s->name, owner->ops->name);
    }
    return HR_OK;
}

hr_status hr_launch(hr_stream *s, const char *name, hr_kernel kernel, const void *args,
                    size_t arg_bytes, const hr_operand *operands, int n_operands)
{
    if (!s || !name || !kernel || arg_bytes > HR_LAUNCH_ARGS || (!args && arg_bytes) ||
        n_operands < 0 || (!operands && n_operands))
        return check_launch(s, name, kernel, args, arg_bytes, operands, n_operands);
    if (s->dev->apart)
        HR_TRY(check_reach(s, name, operands, n_operands));
    if (s->dev->check)
        hr__check_launch(s->dev->check, s, name, operands, n_operands);
    hr__launch l = {
        .name = name, .kernel = kernel, .args = args, .arg_bytes = arg_bytes};
    hr__mark_fill(s, &l);
    s->issued++;
    s->dev->ops->launch(s, &l);
    if (s->dev->blocking)
        s->dev->ops->stream_drain(s);
    return HR_OK;
}

static hr_status check_bytes(const hr_stream *s, const char *call, const void *dst,
                             const void *src, size_t bytes)
{
    if (s == NULL || (bytes && (dst == NULL || src == NULL)))
        return hr_fail(HR_ERR_INVALID, "copy", "%s of %zu bytes: no %s", call, bytes,
                       s == NULL     ? "stream"
                       : dst == NULL ? "destination"
                                     : "source");
    return HR_OK;
}

hr_status hr_copy(hr_stream *s, void *dst, const void *src, size_t bytes)
{
    HR_TRY(check_bytes(s, "hr_copy", dst, src, bytes));
    if (bytes == 0)
        return HR_OK;
    if (s->dev->check)
        hr__check_launch(s->dev->check, s, "copy",
                         (hr_operand[]){{src, bytes, HR_READ}, {dst, bytes, HR_WRITE}},
                         2);
    s->issued++;
    s->dev->ops->copy(s, dst, src, bytes);
    if (s->dev->blocking)
        s->dev->ops->stream_drain(s);
    return HR_OK;
}

struct fill_args {
    void *dst;
    int byte;
    size_t bytes;
};

static hr_status run_fill(const void *args, hr_team *team)
{
    const struct fill_args *f = args;
    memset(f->dst, f->byte, f->bytes);
    return HR_OK;
}

void hr__fill_by_kernel(hr_stream *s, const char *name, void *dst, int byte,
                        size_t bytes)
{
    struct fill_args f = {dst, byte, bytes};
    hr__launch l = {
        .name = name, .kernel = run_fill, .args = &f, .arg_bytes = sizeof f};
    hr__mark_fill(s, &l);
    s->dev->ops->launch(s, &l);
}

hr_status hr_fill(hr_stream *s, void *dst, int byte, size_t bytes)
{
    HR_TRY(check_bytes(s, "hr_fill", dst, dst, bytes));
    if (bytes == 0)
        return HR_OK;
    if (s->dev->check)
        hr__check_launch(s->dev->check, s, "fill", &(hr_operand){dst, bytes, HR_WRITE},
                         1);
    s->issued++;
    s->dev->ops->fill(s, "fill", dst, byte, bytes);
    if (s->dev->blocking)
        s->dev->ops->stream_drain(s);
    return HR_OK;
}
