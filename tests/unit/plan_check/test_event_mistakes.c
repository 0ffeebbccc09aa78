/* Seeded mistakes with streams and events, around schedule nodes. */
#include "lab.h"

#include "toy_ops.h"

static hr_event *unless(bool wrong, hr_event *e)
{
    return wrong ? NULL : e;
}

/* 'pre' on compute makes "hidden"; 'dispatch' on `s` reads it. */
static hr_status pre_then_dispatch(lab *l, hr_stream *s, hr_event *pre_event,
                                   hr_event *dispatch_event,
                                   hr_status (*between)(lab *l))
{
    static lab_work pre_work = {.output = "hidden"}, dispatch_work = {.output = "sent"};
    hr_node *pre, *dispatch;
    hr_tensor *x, *hidden, *sent;
    HR_TRY(lab_tensor(l, "tokens", &x));
    HR_TRY(lab_node(l, "pre", l->compute, pre_event, &pre_work, &pre));
    HR_TRY(lab_node(l, "dispatch", s, dispatch_event, &dispatch_work, &dispatch));
    HR_TRY(lab_forward(pre, x, &hidden));
    HR_TRY(between ? between(l) : HR_OK);
    return lab_forward(dispatch, hidden, &sent);
}

static hr_status missing_wait(lab *l)
{
    return pre_then_dispatch(l, l->comm, l->event, unless(!l->right, l->event), NULL);
}

static hr_status missing_record(lab *l)
{
    return pre_then_dispatch(l, l->comm, unless(!l->right, l->event), l->event, NULL);
}

static hr_status node_on_wrong_stream(lab *l)
{
    return pre_then_dispatch(l, l->right ? l->compute : l->comm, NULL, NULL, NULL);
}

static hr_status record_compute_or_comm(lab *l)
{
    HR_TRY(hr_event_record(l->event, l->right ? l->compute : l->comm));
    return hr_event_wait(l->event, l->comm);
}

static hr_status record_on_wrong_stream(lab *l)
{
    return pre_then_dispatch(l, l->comm, NULL, NULL, record_compute_or_comm);
}

static hr_status wait_comm_or_compute(lab *l)
{
    HR_TRY(hr_event_record(l->event, l->compute));
    return hr_event_wait(l->event, l->right ? l->comm : l->compute);
}

static hr_status wait_on_wrong_stream(lab *l)
{
    return pre_then_dispatch(l, l->comm, NULL, NULL, wait_comm_or_compute);
}

static hr_status record_again_or_not(lab *l)
{
    HR_TRY(l->right ? hr_event_record(l->event, l->compute) : HR_OK);
    return hr_event_wait(l->event, l->comm);
}

static hr_status record_too_early(lab *l)
{
    HR_TRY(hr_event_record(l->event, l->compute));
    return pre_then_dispatch(l, l->comm, NULL, NULL, record_again_or_not);
}

/* Another plan records the event that 'pre' has just recorded, on its own stream. */
static hr_status another_plan(lab *l)
{
    static lab_work work = {.output = "combined"};
    hr_stream *previous;
    hr_tensor *y, *combined;
    hr_node *combine;
    hr_event *own;
    HR_TRY(hr_event_create(l->dev, &own)); /* goes with the device */
    hr_stream_enter(l->comm, &previous);
    hr_status st = lab_tensor(l, "other tokens", &y);
    hr_stream_exit(l->comm, previous);
    HR_TRY(st);
    HR_TRY(lab_node(l, "combine", l->comm, NULL, &work, &combine));
    HR_TRY(lab_forward(combine, y, &combined));
    HR_TRY(hr_event_record(l->right ? own : l->event, l->comm));
    return HR_OK;
}

static hr_status stale_event(lab *l)
{
    return pre_then_dispatch(l, l->counts, l->event, l->event, another_plan);
}

/* 'dispatch' on the communication stream reads "hidden", which compute writes again. */
static hr_status write_after_read(lab *l)
{
    static lab_work work = {.output = "sent"};
    hr_tensor *hidden, *sent;
    hr_node *dispatch;
    HR_TRY(lab_tensor(l, "hidden", &hidden));
    HR_TRY(lab_node(l, "dispatch", l->comm, NULL, &work, &dispatch));
    HR_TRY(lab_order(l, l->compute, l->comm));
    HR_TRY(lab_forward(dispatch, hidden, &sent));
    HR_TRY(l->right ? lab_order(l, l->comm, l->compute) : HR_OK);
    return hr_fill(l->compute, hr_tensor_data(hidden), 1, hr_tensor_bytes(hidden));
}

static hr_status read_after_write(lab *l)
{
    static lab_work work = {.output = "hidden"};
    static float host[LAB_ROWS * TOY_WIDTH];
    hr_tensor *x, *hidden;
    hr_node *pre;
    HR_TRY(lab_tensor(l, "tokens", &x));
    HR_TRY(lab_node(l, "pre", l->compute, NULL, &work, &pre));
    HR_TRY(lab_forward(pre, x, &hidden));
    HR_TRY(l->right ? lab_order(l, l->compute, l->comm) : HR_OK);
    return hr_copy(l->comm, host, hr_tensor_data(hidden), sizeof host);
}

/* The output's gradient comes from the communication stream. */
static hr_status gradient_without_event(lab *l)
{
    static lab_work work = {.output = "y"};
    hr_stream *previous;
    hr_tensor *x, *y, *dy;
    hr_node *mlp;
    HR_TRY(lab_tensor(l, "x", &x));
    HR_TRY(lab_node(l, "mlp", l->compute, NULL, &work, &mlp));
    HR_TRY(lab_forward(mlp, x, &y));
    hr_stream_enter(l->comm, &previous);
    hr_status st = lab_tensor(l, "output gradient", &dy);
    hr_stream_exit(l->comm, previous);
    HR_TRY(st);
    HR_TRY(l->right ? lab_order(l, l->comm, l->compute) : HR_OK);
    return lab_backward(l, mlp, dy);
}

/* Delayed weight gradients, run as the communication stream happens to be current. */
static hr_status weight_gradient_on_wrong_stream(lab *l)
{
    lab_work work = {.output = "y"};
    hr_stream *previous;
    hr_tensor *x, *y, *dy;
    hr_node *mlp;
    HR_TRY(lab_tensor(l, "x", &x));
    HR_TRY(lab_tensor(l, "output gradient", &dy));
    HR_TRY(lab_tensor(l, "w", &work.w));
    HR_TRY(hr_wgrad_queue_create(&work.queue));
    HR_TRY(lab_node(l, "mlp", l->compute, NULL, &work, &mlp));
    HR_TRY(lab_forward(mlp, x, &y));
    HR_TRY(lab_backward(l, mlp, dy));
    hr_stream_enter(l->right ? l->compute : l->comm, &previous);
    hr_status st = hr_wgrad_run(work.queue);
    hr_stream_exit(l->compute, previous);
    hr_wgrad_queue_destroy(work.queue);
    return st;
}

#define BOTH "'compute'", "'communication'"

static const mistake table[] = {
    {"missing_wait",
     missing_wait,
     1,
     "unordered",
     {"'dispatch' forward (layer 2, microbatch 3)", "'pre' forward (layer 2",
      "'hidden'", "no event orders", BOTH}},
    {"missing_record",
     missing_record,
     1,
     "unordered",
     {"'dispatch' forward", "'pre' forward", "'hidden'", "Record one on 'compute'",
      BOTH}},
    {"node_on_wrong_stream",
     node_on_wrong_stream,
     1,
     "unordered",
     {"'dispatch' forward", "'pre' forward", "'hidden'", BOTH}},
    {"record_on_wrong_stream",
     record_on_wrong_stream,
     1,
     "unordered",
     {"'dispatch' forward", "'pre' forward", "'hidden'", "Record one on 'compute'",
      "let 'communication' wait"}},
    {"wait_on_wrong_stream",
     wait_on_wrong_stream,
     1,
     "unordered",
     {"'dispatch' forward", "'pre' forward", "'hidden'", "let 'communication' wait"}},
    {"record_too_early",
     record_too_early,
     1,
     "unordered",
     {"'dispatch' forward", "'pre' forward", "'hidden'",
      "Record one on 'compute' after the write"}},
    {"stale_event",
     stale_event,
     1,
     "stale_event",
     {"'dispatch' forward (layer 2, microbatch 3)", "'pre' forward", "'hidden'",
      "'counts' did wait", "what follows 'combine' forward", "'communication'"}},
    {"write_after_read",
     write_after_read,
     1,
     "unordered",
     {"launch 'fill' on 'compute' writes", "'dispatch' forward", "may still read",
      "'hidden'", BOTH}},
    {"read_after_write",
     read_after_write,
     1,
     "unordered",
     {"launch 'copy' on 'communication' reads", "'pre' forward", "may still write",
      "'hidden'", BOTH}},
    {"gradient_without_event",
     gradient_without_event,
     1,
     "unordered",
     {"'mlp' backward (layer 2, microbatch 3)", "'output gradient'", "launch 'fill'",
      BOTH}},
    {"weight_gradient_on_wrong_stream",
     weight_gradient_on_wrong_stream,
     1,
     "unordered",
     {"'mlp' backward", "on 'communication'", "'output gradient'"}},
};

LAB_MAIN(table)
