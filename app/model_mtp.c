/* model_mtp.c: multi-token prediction, and how its loss joins the main one: the parts that need no
 * plan. Its transformer layer runs as the others do (model_plan.c, plain.c).
 *
 *     hidden ── norm ── eh_hidden ────┐
 *                                     + ── layer ── norm ── head ── loss of the byte after the next
 *     next ── embedding ── norm ── eh_embedding
 */
#include "app_try.h"
#include "model.h"

/* norm(x) w^T. */
static hr_status half(hr_tensor *x, hr_tensor *gain, hr_tensor *w, hr_wgrad_queue *q,
                      hr_tensor **out)
{
    hr_tensor *n;
    *out = NULL;
    APP_TRY(hr_app_norm(x, gain, &n));
    hr_status st = hr_op_linear(n, w, q, out);
    hr_tensor_release(n);
    return st;
}

hr_status hr_app_mtp_input(const hr_app_model *m, hr_tensor *hidden, hr_tensor *next,
                           hr_wgrad_queue *q, hr_tensor **out)
{
    const hr_app_mtp *p = &m->mtp;
    hr_tensor *rows = NULL, *e = NULL, *h = NULL;
    hr_status st;
    *out = NULL;
    APP_TRY_GOTO(st, hr_op_embedding(m->embedding, next, &rows), done);
    APP_TRY_GOTO(st, half(rows, p->embedding_norm, p->eh_embedding, q, &e), done);
    APP_TRY_GOTO(st, half(hidden, p->hidden_norm, p->eh_hidden, q, &h), done);
    APP_TRY_GOTO(st, hr_op_add(e, h, out), done);
done:
    hr_tensor_release(rows);
    hr_tensor_release(e);
    hr_tensor_release(h);
    return st;
}

/* The targets one place on in each sequence of `seq`; the last place has none: -1. */
static hr_status targets_ahead(hr_tensor *targets, int64_t seq, hr_tensor **out)
{
    int64_t n = hr_tensor_count(targets);
    hr_stream *s = hr_stream_current();
    APP_TRY(hr_tensor_create(HR_I32, 1, &n, out));
    int32_t *to = hr_tensor_data(*out);
    const int32_t *from = hr_tensor_data(targets);
    hr_status st = hr_copy(s, to, from + 1, (size_t)(n - 1) * sizeof *to);
    for (int64_t i = seq - 1; i < n && st >= 0; i += seq)
        st = hr_fill(s, to + i, 0xff, sizeof *to);
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

static hr_status head_loss(const hr_app_model *m, hr_tensor *hidden, hr_tensor *targets,
                           float scale, hr_tensor **loss)
{
    hr_tensor *logits;
    *loss = NULL;
    APP_TRY(hr_op_linear(hidden, m->head, NULL, &logits));
    hr_status st = hr_op_cross_entropy(logits, targets, scale, loss);
    hr_tensor_release(logits);
    return st;
}

hr_status hr_app_count_in(hr_tensor **sum, hr_tensor *loss)
{
    hr_tensor *more;
    bool was = hr_grad_mode_set(false);
    hr_status st = hr_op_add(*sum, loss, &more);
    hr_grad_mode_set(was);
    APP_TRY(st);
    hr_tensor_release(*sum);
    *sum = more;
    return HR_OK;
}

static hr_status ahead_loss(hr_app_model *m, hr_tensor *ahead, hr_tensor *targets,
                            hr_tensor **loss)
{
    hr_tensor *later;
    *loss = NULL;
    APP_TRY(targets_ahead(targets, m->shape.seq, &later));
    hr_status st = head_loss(m, ahead, later, m->pass.loss_scale * m->mtp.coef, loss);
    hr_tensor_release(later);
    return st < 0 || !m->pass.counts ? st : hr_app_count_in(&m->mtp.sum, *loss);
}

/* ---- joining -------------------------------------------------------------------------------- */

static hr_status join_backward(hr_function *fn, hr_tensor *const *grad_out,
                               hr_tensor **grad_in)
{
    for (int i = 0; i < 2; i++)
        grad_in[i] = hr_tensor_retain(grad_out[0]);
    return HR_OK;
}

static const hr_function_class join_class = {.name = "mtp_join",
                                             .backward = join_backward};

/* *out has the value of `loss`, and the gradient of loss + other: what is reported stays the loss of
 * the next byte. */
static hr_status join(hr_tensor *loss, hr_tensor *other, hr_tensor **out)
{
    hr_function *fn = NULL;
    APP_TRY(hr_tensor_alias(loss, out));
    hr_status st =
        hr_function_create(&join_class, (hr_tensor *[]){loss, other}, 2, &fn);
    if (st >= 0)
        st = hr_function_finish(fn, out, 1);
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

hr_status hr_app_loss(hr_app_model *m, hr_tensor *hidden, hr_tensor *ahead,
                      hr_tensor *targets, hr_tensor **loss)
{
    hr_tensor *next = NULL, *later = NULL;
    if (!ahead)
        return head_loss(m, hidden, targets, m->pass.loss_scale, loss);
    *loss = NULL;
    hr_status st = head_loss(m, hidden, targets, m->pass.loss_scale, &next);
    if (st >= 0)
        st = ahead_loss(m, ahead, targets, &later);
    if (st >= 0)
        st = join(next, later, loss);
    hr_tensor_release(next);
    hr_tensor_release(later);
    return st;
}
