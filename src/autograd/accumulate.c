/* Sums of gradients; see accumulate.h. */
#include "autograd/accumulate.h"
#include "autograd/grad_kernels.h"
#include "autograd/lend_grad.h"
#include "base/try.h"
#include "tensor/bf16.h"
#include "tensor/tensor_impl.h"

enum { TILE = 1 << 14 }; /* elements; the cut never changes a sum of two */

static void add_f32(float *dst, const float *a, const float *b, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        dst[k] = a[k] + b[k];
}

static float number(const void *x, hr_dtype type, int64_t k)
{
    return type == HR_BF16 ? hr__bf16_wide(((const hr__bf16 *)x)[k])
                           : ((const float *)x)[k];
}

static void add_mixed(const hr__grad_args *p, int64_t k)
{
    float sum = number(p->a, p->a_type, k) + (p->b ? number(p->b, p->b_type, k) : 0);
    if (p->dst_type == HR_BF16)
        ((hr__bf16 *)p->dst)[k] = hr__bf16_near(sum);
    else
        ((float *)p->dst)[k] = sum;
}

static hr_status add_tile(void *arg, int i)
{
    const hr__grad_args *p = arg;
    int64_t from = (int64_t)i * TILE;
    int64_t to = from + TILE < p->n ? from + TILE : p->n;
    if (hr__grad_is_f32(p)) {
        add_f32((float *)p->dst + from, (const float *)p->a + from,
                (const float *)p->b + from, to - from);
        return HR_OK;
    }
    for (int64_t k = from; k < to; k++)
        add_mixed(p, k);
    return HR_OK;
}

static hr_status add_kernel(const void *args, hr_team *team)
{
    hr__grad_args a = *(const hr__grad_args *)args;
    if (a.n <= TILE)
        return add_tile(&a, 0);
    return hr_team_run(team, (int)((a.n + TILE - 1) / TILE), add_tile, &a);
}

static hr_status ones_kernel(const void *args, hr_team *team)
{
    const hr__grad_args *a = args;
    for (int64_t k = 0; k < a->n; k++)
        ((float *)a->dst)[k] = 1.0F;
    return HR_OK;
}

static const hr__kernel add_forms = HR__KERNEL(add_kernel, hr__cuda_grad_add);
static const hr__kernel ones_forms = HR__KERNEL(ones_kernel, hr__cuda_grad_one);

static hr_status check_type(const hr_tensor *g)
{
    HR_TRY(hr_tensor_check(g, "gradient"));
    if (g->dtype != HR_F32 && g->dtype != HR_BF16)
        return hr_fail(HR_ERR_UNSUPPORTED, "dtype",
                       "gradients are f32 or bf16 where the engine adds them, not %s",
                       hr_dtype_name((hr_dtype)g->dtype));
    return HR_OK;
}

static hr_dtype type_of_sum(const hr_tensor *a, const hr_tensor *b)
{
    return a->dtype == HR_BF16 && b->dtype == HR_BF16 ? HR_BF16 : HR_F32;
}

/* dst = a + b, or a where b is NULL; `b` may be NULL. */
static hr_status launch(const char *name, hr_tensor *dst, hr_tensor *a, hr_tensor *b)
{
    hr_stream *s;
    if (dst->count == 0)
        return HR_OK;
    HR_TRY(hr__current_stream("sum of gradients", &s));
    hr__grad_args args = {.dst = hr_tensor_data(dst),
                          .a = hr_tensor_data(a),
                          .b = b ? hr_tensor_data(b) : NULL,
                          .n = dst->count,
                          .dst_type = (hr_dtype)dst->dtype,
                          .a_type = (hr_dtype)a->dtype,
                          .b_type = b ? (hr_dtype)b->dtype : HR_F32};
    hr_operand ops[] = {{args.dst, hr_tensor_bytes(dst), HR_WRITE},
                        {args.a, hr_tensor_bytes(a), HR_READ},
                        {args.b, b ? hr_tensor_bytes(b) : 0, HR_READ}};
    return hr__launch_kernel(s, name, &add_forms, &args, sizeof args, ops, b ? 3 : 2);
}

/* dst = a + b, of one shape; `dst` may be one of them. */
static hr_status add(hr_tensor *dst, hr_tensor *a, hr_tensor *b)
{
    char sa[HR__SHAPE_TEXT], sb[HR__SHAPE_TEXT];
    HR_TRY(check_type(dst));
    HR_TRY(check_type(a));
    HR_TRY(check_type(b));
    if (!hr_tensor_same_shape(a, b))
        return hr_fail(HR_ERR_INVALID, "grad_shape", "sum of gradients %s and %s",
                       hr__shape_text(a, sa), hr__shape_text(b, sb));
    return launch("grad.add", dst, a, b);
}

hr_status hr__grad_as(hr_tensor **g, hr_dtype type)
{
    hr_tensor *given = *g;
    if (given->dtype == type)
        return HR_OK;
    *g = NULL;
    hr_status st = check_type(given);
    if (st >= 0)
        st = hr_tensor_create(type, given->ndim, given->shape, g);
    if (st >= 0)
        st = check_type(*g);
    if (st >= 0)
        st = launch("grad.convert", *g, given, NULL);
    hr_tensor_release(given);
    if (st < 0) {
        hr_tensor_release(*g);
        *g = NULL;
    }
    return st;
}

/* Whoever holds the one handle and the one claim may write the bytes, or keep them. */
static bool sole_owner(const hr_tensor *g)
{
    return hr_tensor_refs(g) == 1 && !hr_tensor_dropped(g) &&
           hr_storage_claims(g->storage) == 1 && !g->storage->wrapped &&
           !g->storage->symmetric;
}

hr_status hr__grad_deposit(hr_tensor **slot, hr_tensor *g)
{
    hr_tensor *have = *slot, *sum = NULL;
    hr_status st = HR_OK;
    if (!have) {
        *slot = g;
        return HR_OK;
    }
    hr_dtype type = type_of_sum(have, g);
    if (sole_owner(have) && have->dtype == type) {
        st = add(have, have, g);
        hr_tensor_release(g);
        return st;
    }
    if (sole_owner(g) && g->dtype == type) {
        st = add(g, have, g);
        sum = g;
    } else {
        st = hr_tensor_create(type, g->ndim, g->shape, &sum);
        if (st >= 0)
            st = add(sum, have, g);
        hr_tensor_release(g);
    }
    hr_tensor_release(have);
    *slot = sum;
    return st;
}

static hr_status copy_of(hr_tensor *g, hr_tensor **out)
{
    hr_stream *s;
    HR_TRY(check_type(g));
    HR_TRY(hr__current_stream("gradient", &s));
    HR_TRY(hr_tensor_create((hr_dtype)g->dtype, g->ndim, g->shape, out));
    if (g->count == 0)
        return HR_OK;
    hr_status st =
        hr_copy(s, hr_tensor_data(*out), hr_tensor_data(g), hr_tensor_bytes(g));
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

void hr__grad_may_share(hr_tensor *t)
{
    t->lends_grad = true;
}

static bool may_share(const hr_tensor *leaf, const hr_tensor *g)
{
    return leaf->lends_grad && !g->storage->wrapped && !g->storage->symmetric;
}

/* A handle that is ours alone has the claim that is needed. */
static hr_status share(hr_tensor *g, hr_tensor **out)
{
    HR_TRY(hr_tensor_check(g, "gradient"));
    if (hr_tensor_refs(g) == 1 && !hr_tensor_dropped(g)) {
        *out = hr_tensor_retain(g);
        return HR_OK;
    }
    return hr__tensor_share(g, g->offset, g->ndim, g->shape, out);
}

hr_status hr__grad_accumulate(hr_tensor *leaf, hr_tensor *g)
{
    hr_status st = HR_OK;
    hr_tensor *mine = NULL;
    if (leaf->grad && leaf->lends_grad)
        return hr__grad_deposit(&leaf->grad, g);
    if (leaf->grad) {
        st = add(leaf->grad, leaf->grad, g);
    } else if (sole_owner(g)) {
        leaf->grad = g;
        return HR_OK;
    } else {
        st = may_share(leaf, g) ? share(g, &mine) : copy_of(g, &mine);
        leaf->grad = mine;
    }
    hr_tensor_release(g);
    return st;
}

hr_status hr__grad_ones(const hr_tensor *root, hr_tensor **out)
{
    hr_stream *s;
    if (root->dtype != HR_F32)
        return hr_fail(
            HR_ERR_UNSUPPORTED, "dtype",
            "backward: root '%s' is %s; only for f32 can its gradient be left out",
            root->name, hr_dtype_name((hr_dtype)root->dtype));
    HR_TRY(hr__current_stream("gradient of one", &s));
    HR_TRY(hr_tensor_create(HR_F32, root->ndim, root->shape, out));
    hr__grad_args args = {.dst = hr_tensor_f32(*out), .n = (*out)->count};
    hr_operand op = {args.dst, hr_tensor_bytes(*out), HR_WRITE};
    hr_status st =
        hr__launch_kernel(s, "grad.one", &ones_forms, &args, sizeof args, &op, 1);
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}
