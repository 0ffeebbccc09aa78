/* plain.c: the model run straight through, one operator after the other: no node, no plan, no group.
 * It writes text for `headrace sample`, and it is what the plans are compared with. */
#include "app_try.h"
#include "model.h"
#include <stdlib.h>

/* Host offsets of each expert's rows, from counts in device memory. */
static hr_status read_offsets(hr_tensor *counts, int experts, int64_t **out)
{
    int32_t *n = calloc((size_t)experts, sizeof *n);
    int64_t *offsets = calloc((size_t)experts + 1, sizeof *offsets);
    hr_status st =
        n && offsets ? HR_OK : hr_fail(HR_ERR_NOMEM, NULL, "no memory for counts");
    if (st >= 0)
        st = hr_tensor_read(counts, n, (size_t)experts * sizeof *n);
    for (int e = 0; e < experts && st >= 0; e++)
        offsets[e + 1] = offsets[e] + n[e];
    free(n);
    if (st < 0) {
        free(offsets);
        offsets = NULL;
    }
    *out = offsets;
    return st;
}

static hr_status experts(const hr_app_layer *l, hr_tensor *n, hr_tensor **out)
{
    enum { PROBS, INDEX, SOURCE, SLOT, COUNTS, X, P, Y, ALL };
    hr_tensor *t[ALL] = {NULL};
    int64_t *offsets = NULL;
    hr_status st;
    APP_TRY_GOTO(st, hr_app_route(l, n, &t[PROBS], &t[INDEX]), done);
    APP_TRY_GOTO(st,
                 hr_op_sort_choices(t[INDEX], l->shape->experts, &t[SOURCE], &t[SLOT],
                                    &t[COUNTS]),
                 done);
    APP_TRY_GOTO(st, read_offsets(t[COUNTS], l->shape->experts, &offsets), done);
    APP_TRY_GOTO(st, hr_op_permute(n, t[SOURCE], t[SLOT], &t[X]), done);
    APP_TRY_GOTO(st, hr_op_permute_probs(t[PROBS], t[SLOT], &t[P]), done);
    APP_TRY_GOTO(st, hr_app_experts(l, t[X], t[P], offsets, NULL, &t[Y]), done);
    APP_TRY_GOTO(st, hr_op_unpermute(t[Y], t[SOURCE], t[SLOT], out), done);
done:
    for (int i = 0; i < ALL; i++)
        hr_tensor_release(t[i]);
    free(offsets);
    return st;
}

/* *sum += part; `part` is taken. */
static hr_status add_to(hr_tensor **sum, hr_tensor *part)
{
    hr_tensor *next = NULL;
    hr_status st = hr_op_add(*sum, part, &next);
    hr_tensor_release(part);
    if (st < 0)
        return st;
    hr_tensor_release(*sum);
    *sum = next;
    return HR_OK;
}

/* *x becomes the layer's output. */
static hr_status run_layer(const hr_app_layer *l, hr_tensor **x)
{
    hr_tensor *h, *n = NULL, *part;
    APP_TRY(hr_app_attention(l, *x, NULL, &h));
    hr_tensor_release(*x);
    *x = h;
    hr_status st = hr_app_norm(h, l->norm2, &n);
    hr_tensor *sum =
        NULL; /* experts first, then shared, then residual, as the combine slot adds */
    if (st >= 0 && l->moe)
        st = experts(l, n, &sum);
    if (st >= 0 && l->mlp_in && (st = hr_app_mlp(l, n, NULL, &part)) >= 0) {
        if (sum)
            st = add_to(&sum, part);
        else
            sum = part;
    }
    if (st >= 0)
        st = add_to(&sum, hr_tensor_retain(h));
    hr_tensor_release(n);
    if (st < 0) {
        hr_tensor_release(sum);
        return st;
    }
    hr_tensor_release(*x);
    *x = sum;
    return HR_OK;
}

/* The hidden state after the final norm. */
static hr_status body(hr_app_model *m, hr_tensor *ids, hr_tensor **out)
{
    hr_tensor *x;
    hr_status st = HR_OK;
    *out = NULL;
    APP_TRY(hr_op_embedding(m->embedding, ids, &x));
    for (int i = 0; i < m->shape.layers && st >= 0; i++)
        st = run_layer(&m->blocks[i].math, &x);
    if (st >= 0)
        st = hr_app_norm(x, m->final_norm, out);
    hr_tensor_release(x);
    return st;
}

/* The hidden state of multi-token prediction, after its norm. */
static hr_status look_ahead(hr_app_model *m, hr_tensor *hidden, hr_tensor *next,
                            hr_tensor **out)
{
    hr_tensor *x;
    *out = NULL;
    APP_TRY(hr_app_mtp_input(m, hidden, next, NULL, &x));
    hr_status st = run_layer(&m->blocks[m->shape.layers].math, &x);
    if (st >= 0)
        st = hr_app_norm(x, m->mtp.final_norm, out);
    hr_tensor_release(x);
    return st;
}

hr_status hr_app_model_plain(hr_app_model *m, hr_tensor *ids, hr_tensor **logits)
{
    hr_tensor *n;
    *logits = NULL;
    APP_TRY(body(m, ids, &n));
    hr_status st = hr_op_linear(n, m->head, NULL, logits);
    hr_tensor_release(n);
    return st;
}

hr_status hr_app_model_plain_loss(hr_app_model *m, hr_tensor *ids, hr_tensor *targets,
                                  hr_tensor **loss)
{
    hr_tensor *n, *ahead = NULL;
    hr_status st = HR_OK;
    *loss = NULL;
    APP_TRY(body(m, ids, &n));
    if (m->shape.mtp && hr_grad_mode())
        st = look_ahead(m, n, targets, &ahead);
    if (st >= 0)
        st = hr_app_loss(m, n, ahead, targets, loss);
    hr_tensor_release(n);
    hr_tensor_release(ahead);
    return st;
}
