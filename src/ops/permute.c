/* permute, unpermute, permute_probs: rows of N tokens to the M = N*K slots of their choices and
 * back. Each is the other's gradient: gather copies, combine adds a token's choices in order. */
#include "ops/kernels.h"
#include "ops/op.h"

/* out[j] = x[source[j]] */
static hr_status gather(const char *name, const hr_tensor *x, const hr_tensor *source,
                        const hr_tensor *out)
{
    hr__rows_args args = {
        .x = hr_tensor_data(x),
        .out = hr_tensor_data(out),
        .map = hr__op_i32(source),
        .n = hr_tensor_dim(out, 0),
        .from = hr_tensor_dim(x, 0),
        .width = hr_tensor_dim(x, 1),
        .type = hr_tensor_dtype(x),
    };
    return HR__LAUNCH(name, hr__k_gather, args, HR__OUT(out), HR__IN(x),
                      HR__IN(source));
}

/* out[n] = sum over k of x[slot[n,k]] */
static hr_status combine(const char *name, const hr_tensor *x, const hr_tensor *slot,
                         const hr_tensor *out)
{
    hr__rows_args args = {
        .x = hr_tensor_data(x),
        .out = hr_tensor_data(out),
        .map = hr__op_i32(slot),
        .n = hr_tensor_dim(out, 0),
        .top_k = hr_tensor_dim(slot, 1),
        .from = hr_tensor_dim(x, 0),
        .width = hr_tensor_dim(x, 1),
        .type = hr_tensor_dtype(x),
    };
    return HR__LAUNCH(name, hr__k_combine, args, HR__OUT(out), HR__IN(x), HR__IN(slot));
}

static hr_status permute_backward(hr_function *fn, hr_tensor *const *grad_out,
                                  hr_tensor **grad_in)
{
    hr_tensor *slot = hr_function_saved(fn, 0);
    HR_TRY(hr_tensor_create(
        hr_tensor_dtype(grad_out[0]),
        HR__DIMS(hr_tensor_dim(slot, 0), hr_tensor_dim(grad_out[0], 1)), &grad_in[0]));
    return combine("permute backward", grad_out[0], slot, grad_in[0]);
}

static hr_status unpermute_backward(hr_function *fn, hr_tensor *const *grad_out,
                                    hr_tensor **grad_in)
{
    hr_tensor *source = hr_function_saved(fn, 0);
    HR_TRY(hr_tensor_create(
        hr_tensor_dtype(grad_out[0]),
        HR__DIMS(hr_tensor_dim(source, 0), hr_tensor_dim(grad_out[0], 1)),
        &grad_in[0]));
    return gather("unpermute backward", grad_out[0], source, grad_in[0]);
}

static const hr_function_class permute_class = {.name = "permute",
                                                .backward = permute_backward};
static const hr_function_class unpermute_class = {.name = "unpermute",
                                                  .backward = unpermute_backward};

/* slot is [N,K] and source [N*K]. */
static hr_status check_maps(const char *op, const hr_tensor *source,
                            const hr_tensor *slot)
{
    HR_TRY(hr__op_expect(op, "slot", slot, HR_I32, HR__DIMS(HR__ANY, HR__ANY)));
    return hr__op_expect(op, "source", source, HR_I32, HR__DIMS(hr_tensor_count(slot)));
}

hr_status hr_op_permute(hr_tensor *x, hr_tensor *source, hr_tensor *slot,
                        hr_tensor **out)
{
    HR_TRY(hr__op_out("permute", out));
    HR_TRY(check_maps("permute", source, slot));
    HR_TRY(hr__op_expect("permute", "x", x, hr__op_type(x),
                         HR__DIMS(hr_tensor_dim(slot, 0), HR__ANY)));
    hr_tensor *y;
    hr_status st;
    HR_TRY(hr_tensor_create(hr_tensor_dtype(x),
                            HR__DIMS(hr_tensor_dim(source, 0), hr_tensor_dim(x, 1)),
                            &y));
    HR_TRY_GOTO(st, gather("permute", x, source, y), fail);
    HR_TRY_GOTO(st, hr__op_record(&permute_class, &x, 1, &slot, 1, NULL, y), fail);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(y);
    return st;
}

hr_status hr_op_unpermute(hr_tensor *x, hr_tensor *source, hr_tensor *slot,
                          hr_tensor **out)
{
    HR_TRY(hr__op_out("unpermute", out));
    HR_TRY(check_maps("unpermute", source, slot));
    HR_TRY(hr__op_expect("unpermute", "x", x, hr__op_type(x),
                         HR__DIMS(hr_tensor_dim(source, 0), HR__ANY)));
    hr_tensor *y;
    hr_status st;
    HR_TRY(hr_tensor_create(hr_tensor_dtype(x),
                            HR__DIMS(hr_tensor_dim(slot, 0), hr_tensor_dim(x, 1)), &y));
    HR_TRY_GOTO(st, combine("unpermute", x, slot, y), fail);
    HR_TRY_GOTO(st, hr__op_record(&unpermute_class, &x, 1, &source, 1, NULL, y), fail);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(y);
    return st;
}

/* Single numbers: slots[slot[i]] = choices[i], or the reverse. */
static hr_status move_probs(const char *name, const hr_tensor *choices,
                            const hr_tensor *slots, const hr_tensor *slot, bool back)
{
    hr__probs_args args = {
        .choices = hr_tensor_f32(choices),
        .slots = hr_tensor_f32(slots),
        .slot = hr__op_i32(slot),
        .count = hr_tensor_count(slot),
        .back = back,
    };
    return HR__LAUNCH(name, hr__k_permute_probs, args,
                      hr__op_use(choices, back ? HR_WRITE : HR_READ),
                      hr__op_use(slots, back ? HR_READ : HR_WRITE), HR__IN(slot));
}

static hr_status permute_probs_backward(hr_function *fn, hr_tensor *const *grad_out,
                                        hr_tensor **grad_in)
{
    hr_tensor *slot = hr_function_saved(fn, 0);
    HR_TRY(hr_tensor_create(HR_F32, hr_tensor_ndim(slot), hr_tensor_shape(slot),
                            &grad_in[0]));
    return move_probs("permute_probs backward", grad_in[0], grad_out[0], slot, true);
}

static const hr_function_class permute_probs_class = {
    .name = "permute_probs", .backward = permute_probs_backward};

hr_status hr_op_permute_probs(hr_tensor *p, hr_tensor *slot, hr_tensor **out)
{
    HR_TRY(hr__op_out("permute_probs", out));
    HR_TRY(hr__op_expect("permute_probs", "slot", slot, HR_I32,
                         HR__DIMS(HR__ANY, HR__ANY)));
    HR_TRY(hr__op_expect("permute_probs", "p", p, HR_F32,
                         HR__DIMS(hr_tensor_dim(slot, 0), hr_tensor_dim(slot, 1))));
    hr_tensor *y;
    hr_status st;
    HR_TRY(hr_tensor_create(HR_F32, HR__DIMS(hr_tensor_count(slot)), &y));
    HR_TRY_GOTO(st, move_probs("permute_probs", p, y, slot, false), fail);
    HR_TRY_GOTO(st, hr__op_record(&permute_probs_class, &p, 1, &slot, 1, NULL, y),
                fail);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(y);
    return st;
}
