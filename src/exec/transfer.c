/* A step's transfers: what is posted where, and who waits for whom. */
#include "base/try.h"
#include "exec/exec_impl.h"

/* ---- sends --------------------------------------------------------------------------------- */
/* What the transfer is, for the timeline and for time-outs. */
static void begin_transfer(const hr__step *x, const hr__op *op, hr__wire *w)
{
    static const char *const name[2][2] = {{"send_f", "recv_f"}, {"send_b", "recv_b"}};
    hr_group_set_label(w->group, &(hr_op_label){hr__transfer_name(op),
                                                x->e->stage[op->mine].stage, op->mine,
                                                op->microbatch});
    hr_span_begin(w->stream, &(hr_mark){name[op->back][op->kind == HR__RECV],
                                        x->e->stage[op->mine].stage, op->microbatch,
                                        op->back ? HR_DIR_BACKWARD : HR_DIR_FORWARD});
}

static hr_status transfer(hr__wire *w, bool send, hr_tensor *t)
{
    hr_p2p p = {send, send ? 1 : 0, hr_tensor_data(t), hr_tensor_bytes(t)};
    return hr_group_batch(w->group, &p, 1, w->stream);
}

static hr_status send_now(hr__step *x, hr__wire *w, hr_tensor *t)
{
    HR_TRY(hr_event_record(w->ready, hr_stream_current()));
    HR_TRY(hr_event_wait(w->ready, w->stream));
    HR_TRY(hr_tensor_check(t, "what is sent"));
    if (!x->e->shape)
        HR_TRY(hr__shape_send(w, t));
    HR_TRY(transfer(w, true, t));
    return hr_tensor_record_stream(t, w->stream);
}

/* The value's memory is handed out again only where the compute stream has waited for its
 * transfer. For an activation with a backward that is there, when it is long through; for
 * the rest when HR__SENDS_AHEAD more are under way. */
hr_status hr__post_send(hr__step *x, const hr__op *op, hr_tensor *t)
{
    hr__wire *w = &x->e->wire[op->wire];
    hr_event *ev = op->leaves == HR__NONE ? w->ahead[w->sends % HR__SENDS_AHEAD]
                                          : x->p->left[op->leaves];
    if (op->leaves == HR__NONE && w->sends++ >= HR__SENDS_AHEAD)
        HR_TRY(hr_event_wait(ev, x->compute));
    w->used = true;
    begin_transfer(x, op, w);
    hr_status st = send_now(x, w, t);
    hr_span_end(w->stream);
    HR_TRY(st);
    return hr_event_record(ev, w->stream);
}

hr_status hr__send(hr__step *x, const hr__op *op)
{
    hr__cell *c = &x->p->cell[op->cell];
    if (c->sent) {
        c->sent = false;
        return HR_OK;
    }
    HR_TRY(hr__post_send(x, op, c->t));
    hr__drop_cell(x->p, op->cell);
    return HR_OK;
}

hr_status hr__await_sends(hr__step *x)
{
    for (int i = 0; i < x->e->n_wires; i++) {
        hr__wire *w = &x->e->wire[i];
        if (!w->used || w->from != x->e->rank)
            continue;
        HR_TRY(hr_event_record(w->ended, w->stream));
        HR_TRY(hr_event_wait(w->ended, x->compute));
    }
    return HR_OK;
}

/* ---- receives ------------------------------------------------------------------------------ */
static hr_status make_there(hr__wire *w, const hr_exec_shape *s, hr_tensor **out)
{
    hr_stream *previous;
    hr_stream_enter(w->stream, &previous);
    hr_status st = hr_tensor_create(s->dtype, s->ndim, s->dim, out);
    hr_stream_exit(w->stream, previous);
    return st;
}

static hr_status receive(hr__wire *w, hr__cell *c, const hr_exec_shape *s)
{
    HR_TRY(make_there(w, s, &c->t));
    HR_TRY(transfer(w, false, c->t));
    return hr_event_record(c->there, w->stream);
}

/* Memory that was given up before the slot before the last may be handed out again here, without
 * waiting for the slot that runs. */
static hr_status order_behind_slots(hr__step *x, hr__wire *w)
{
    if (w->waited == x->slots)
        return HR_OK;
    w->waited = x->slots;
    return hr_event_wait(x->e->slot[x->slots % HR__SLOTS_BEHIND], w->stream);
}

static hr_status recv_now(hr__step *x, const hr__op *op, hr__wire *w)
{
    hr__cell *c = &x->p->cell[op->cell];
    HR_TRY(order_behind_slots(x, w));
    if (x->e->shape) {
        int stage = x->e->stage[op->mine].stage + op->back;
        HR_TRY(receive(w, c, &x->e->shape[stage]));
    } else {
        HR_TRY(hr__shape_recv(w));
        w->pending = op->cell;
    }
    c->wire = op->wire;
    return HR_OK;
}

hr_status hr__recv(hr__step *x, const hr__op *op)
{
    hr__wire *w = &x->e->wire[op->wire];
    if (w->pending != HR__NONE)
        HR_TRY(hr__expect_cell(x, w->pending));
    begin_transfer(x, op, w);
    hr_status st = recv_now(x, op, w);
    hr_span_end(w->stream);
    return st;
}

hr_status hr__expect_cell(hr__step *x, int cell)
{
    if (cell == HR__NONE || x->p->cell[cell].wire == HR__NONE)
        return HR_OK;
    hr__wire *w = &x->e->wire[x->p->cell[cell].wire];
    hr_exec_shape s;
    if (w->pending != cell)
        return HR_OK;
    HR_TRY(hr__shape_wait(w, &s));
    w->pending = HR__NONE;
    return receive(w, &x->p->cell[cell], &s);
}

hr_status hr__wait_cell(hr__step *x, int cell)
{
    hr__cell *c = cell == HR__NONE ? NULL : &x->p->cell[cell];
    if (!c || c->wire == HR__NONE)
        return HR_OK;
    HR_TRY(hr__expect_cell(x, cell));
    c->wire = HR__NONE;
    HR_TRY(hr_event_wait(c->there, x->compute));
    return hr_tensor_record_stream(c->t, x->compute);
}

void hr__drop_cell(const hr_program *p, int cell)
{
    if (cell == HR__NONE)
        return;
    hr__cell *c = &p->cell[cell];
    hr_tensor_release(c->t);
    c->t = NULL;
    c->wire = HR__NONE;
    c->sent = false;
}
