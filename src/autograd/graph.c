/* A tensor's place in the graph: need of gradient, gradient, detach. */
#include "autograd/function.h"
#include "base/try.h"
#include "trace/probe.h"

bool hr_tensor_requires_grad(const hr_tensor *t)
{
    return t && t->requires_grad;
}

bool hr_tensor_is_leaf(const hr_tensor *t)
{
    return t && !t->graph;
}

hr_tensor *hr_tensor_grad(const hr_tensor *t)
{
    return t ? t->grad : NULL;
}

static hr_status need_leaf(const char *what, const hr_tensor *t)
{
    if (!t)
        return hr_fail(HR_ERR_INVALID, "no_tensor", "%s: no tensor", what);
    if (t->graph)
        return hr_fail(HR_ERR_STATE, "not_leaf",
                       "%s: tensor '%s' is an output of function '%s'", what, t->name,
                       hr__function_of(t)->cls->name);
    return HR_OK;
}

hr_status hr_tensor_set_requires_grad(hr_tensor *t, bool on)
{
    HR_PROBE(.kind = HR_PROBE_REQUIRES_GRAD, .a = t, .value = on);
    HR_TRY(need_leaf("requires_grad", t));
    if (on && !hr__dtype_is_real((hr_dtype)t->dtype))
        return hr_fail(HR_ERR_INVALID, "dtype", "requires_grad: tensor '%s' is %s",
                       t->name, hr_dtype_name((hr_dtype)t->dtype));
    t->requires_grad = on;
    return HR_OK;
}

hr_status hr_tensor_set_grad(hr_tensor *t, hr_tensor *g)
{
    char st[HR__SHAPE_TEXT], sg[HR__SHAPE_TEXT];
    if (!t || t == g)
        return hr_fail(HR_ERR_INVALID, "no_tensor",
                       t ? "set_grad: tensor '%s' as its own gradient"
                         : "set_grad: no tensor",
                       t ? t->name : "");
    if (g && g->base == t) /* which keeps `t`: neither would ever go */
        return hr_fail(HR_ERR_INVALID, "grad_view",
                       "set_grad: a view of tensor '%s' as its gradient", t->name);
    if (g && !hr_tensor_same_shape(t, g))
        return hr_fail(HR_ERR_INVALID, "grad_shape",
                       "set_grad: gradient %s for tensor '%s' %s",
                       hr__shape_text(g, sg), t->name, hr__shape_text(t, st));
    hr_tensor *old = t->grad;
    t->grad = hr_tensor_retain(g);
    hr_tensor_release(old);
    return HR_OK;
}

hr_status hr_grad_buffer(hr_tensor *t, hr_tensor **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_grad_buffer: `out` is NULL");
    *out = NULL;
    HR_TRY(need_leaf("hr_grad_buffer", t));
    if (!t->grad)
        HR_TRY(hr_tensor_zeros(HR_F32, t->ndim, t->shape, &t->grad));
    HR_TRY(hr_tensor_check(t->grad, "hr_grad_buffer"));
    *out = t->grad;
    return HR_OK;
}

hr_status hr_tensor_detach(hr_tensor *t, hr_tensor **out)
{
    HR_TRY(hr_tensor_alias(t, out));
    HR_PROBE(.kind = HR_PROBE_DETACH, .a = t, .b = *out);
    return HR_OK;
}

hr_status hr_tensor_share_graph(hr_tensor *t, hr_tensor *out)
{
    char st[HR__SHAPE_TEXT], so[HR__SHAPE_TEXT];
    if (!t || !out || t == out)
        return hr_fail(HR_ERR_INVALID, "no_tensor",
                       "share_graph: two tensors are needed");
    if (hr_tensor_requires_grad(out))
        return hr_fail(HR_ERR_STATE, "output_in_graph",
                       "share_graph: tensor '%s' has its place in a graph", out->name);
    if (!hr_tensor_same_shape(t, out))
        return hr_fail(HR_ERR_INVALID, "grad_shape", "share_graph: %s for %s",
                       hr__shape_text(out, so), hr__shape_text(t, st));
    if (!t->requires_grad)
        return HR_OK;
    if (!t->graph) /* a leaf takes its gradient itself: lead to it */
        return hr__function_identity(t, out);
    hr__function_retain(hr__function_of(t));
    out->graph = t->graph;
    out->graph_output = t->graph_output;
    out->requires_grad = true;
    return HR_OK;
}
