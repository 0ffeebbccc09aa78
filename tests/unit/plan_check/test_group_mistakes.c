/* Seeded mistakes around collectives, of two ranks. */
#include "lab.h"

#include "toy_ops.h"

/* 'pre' on compute, 'dispatch' with its transfer on the communication stream, 'mlp' on compute; each
 * with the event or without. */
static hr_status layer(lab *l, hr_event *pre_event, hr_event *dispatch_event,
                       hr_event *mlp_event)
{
    static lab_work pre_work = {.output = "hidden"}, mlp_work = {.output = "y"};
    lab_work dispatch_work = {.group = l->world, .output = "received"};
    hr_node *pre, *dispatch, *mlp;
    hr_tensor *x, *hidden, *received, *y;
    HR_TRY(lab_tensor(l, "tokens", &x));
    HR_TRY(lab_node(l, "pre", l->compute, pre_event, &pre_work, &pre));
    HR_TRY(lab_node(l, "dispatch", l->comm, dispatch_event, &dispatch_work, &dispatch));
    HR_TRY(lab_node(l, "mlp", l->compute, mlp_event, &mlp_work, &mlp));
    HR_TRY(lab_forward(pre, x, &hidden));
    HR_TRY(lab_forward(dispatch, hidden, &received));
    return lab_forward(mlp, received, &y);
}

static hr_status transfer_before_its_tokens_are_there(lab *l)
{
    hr_event *e = l->event;
    return layer(l, e, l->right ? e : NULL, l->right ? e : NULL);
}

static hr_status tokens_used_before_they_came(lab *l)
{
    return layer(l, l->event, l->event, l->right ? l->event : NULL);
}

static hr_status exchange(lab *l, hr_group *g, hr_tensor *from, hr_tensor *to,
                          hr_stream *s)
{
    int64_t counts[2] = {LAB_ROWS * TOY_WIDTH / 2, LAB_ROWS * TOY_WIDTH / 2};
    return hr_all_to_all_v(g, hr_tensor_data(from), counts, hr_tensor_data(to), counts,
                           sizeof(float), s);
}

static hr_status send_buffer_written_under_the_transfer(lab *l)
{
    hr_tensor *from, *to;
    HR_TRY(lab_tensor(l, "send buffer", &from));
    HR_TRY(lab_tensor(l, "receive buffer", &to));
    HR_TRY(lab_order(l, l->compute, l->comm));
    HR_TRY(exchange(l, l->world, from, to, l->comm));
    HR_TRY(l->right ? lab_order(l, l->comm, l->compute) : HR_OK);
    return hr_fill(l->compute, hr_tensor_data(from), 0, hr_tensor_bytes(from));
}

static hr_status collective_on_wrong_stream(lab *l)
{
    hr_tensor *from, *to;
    HR_TRY(lab_tensor(l, "from", &from));
    HR_TRY(lab_tensor(l, "to", &to));
    HR_TRY(lab_order(l, l->compute, l->comm));
    HR_TRY(exchange(l, l->world, from, to, l->comm));
    return exchange(l, l->world, from, to, l->right ? l->comm : l->compute);
}

/* The sum over ranks begins on its own stream while backward still adds to the buffer. */
static hr_status gradient_reduced_before_backward_is_through(lab *l)
{
    lab_work work = {.output = "y"};
    hr_tensor *x, *y, *dy, *grad;
    hr_node *mlp;
    HR_TRY(lab_tensor(l, "x", &x));
    HR_TRY(lab_tensor(l, "dy", &dy));
    HR_TRY(lab_tensor(l, "w", &work.w));
    HR_TRY(hr_grad_buffer(work.w, &grad));
    hr_tensor_set_name(grad, "gradient of w");
    HR_TRY(lab_node(l, "mlp", l->compute, NULL, &work, &mlp));
    HR_TRY(lab_forward(mlp, x, &y));
    HR_TRY(lab_backward(l, mlp, dy));
    HR_TRY(l->right ? lab_order(l, l->compute, l->comm) : HR_OK);
    return hr_all_reduce(l->world, hr_tensor_data(grad), hr_tensor_data(grad),
                         hr_tensor_count(grad), HR_F32, HR_SUM, l->comm);
}

/* Two nodes with one transfer each on the communication stream, in turn or turned round. */
static hr_status two_transfers(lab *l, lab_work *a, lab_work *b, bool turned)
{
    hr_node *node[2];
    hr_tensor *x, *y;
    HR_TRY(lab_tensor(l, "tokens", &x));
    HR_TRY(lab_order(l, l->compute, l->comm));
    HR_TRY(lab_node(l, "dispatch", l->comm, NULL, a, &node[0]));
    HR_TRY(lab_node(l, "combine", l->comm, NULL, b, &node[1]));
    HR_TRY(lab_forward(node[turned], x, &y));
    return lab_forward(node[!turned], x, &y);
}

static hr_status collective_order_differs(lab *l)
{
    lab_work a = {.group = l->world, .output = "a", .layer = 4};
    lab_work b = {.group = l->world, .output = "b", .layer = 5};
    return two_transfers(l, &a, &b, !l->right && l->rank == 1);
}

static hr_status order_of_two_groups_differs(lab *l)
{
    hr_group *other;
    HR_TRY(hr_group_create(l->world, NULL, 0, &other));
    lab_work a = {.group = l->world, .output = "a", .layer = 4};
    lab_work b = {.group = other, .output = "b", .layer = 5};
    hr_status st = two_transfers(l, &a, &b, !l->right && l->rank == 1);
    hr_group_release(other);
    return st;
}

#define BOTH "'compute'", "'communication'"

static const mistake table[] = {
    {"transfer_before_its_tokens_are_there",
     transfer_before_its_tokens_are_there,
     2,
     "unordered",
     {"'dispatch' forward (layer 2, microbatch 3), launch 'all_to_all'",
      "'pre' forward (layer 2", "'hidden'", BOTH}},
    {"tokens_used_before_they_came",
     tokens_used_before_they_came,
     2,
     "unordered",
     {"'mlp' forward (layer 2, microbatch 3)", "'dispatch' forward", "'received'",
      "may still write", BOTH}},
    {"send_buffer_written_under_the_transfer",
     send_buffer_written_under_the_transfer,
     2,
     "unordered",
     {"launch 'fill' on 'compute' writes 'send buffer'",
      "launch 'all_to_all' on 'communication' may still read"}},
    {"collective_on_wrong_stream",
     collective_on_wrong_stream,
     2,
     "group_streams",
     {"all_to_all", BOTH}},
    {"gradient_reduced_before_backward_is_through",
     gradient_reduced_before_backward_is_through,
     2,
     "unordered",
     {"launch 'all_reduce' on 'communication'", "'gradient of w'",
      "'mlp' backward (layer 2, microbatch 3)", "'compute'"}},
    {"collective_order_differs",
     collective_order_differs,
     2,
     "collective_order",
     {"'dispatch' forward (layer 4, microbatch 3)",
      "'combine' forward (layer 5, microbatch 3)", "'communication'", "rank 0",
      "rank 1"}},
    {"order_of_two_groups_differs",
     order_of_two_groups_differs,
     2,
     "collective_order",
     {"'dispatch' forward (layer 4, microbatch 3)",
      "'combine' forward (layer 5, microbatch 3)", "another group", "rank 0",
      "rank 1"}},
};

LAB_MAIN(table)
