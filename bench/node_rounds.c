/* node_rounds.c: see node_rounds.h. */
#include "node_rounds.h"
#include "bench.h"
#include "headrace/ops.h"

enum { ROWS = 8, WIDTH = 64 };

static hr_status view_of(hr_tensor *in, hr_tensor **out)
{
    return hr_op_view(in, 2, (const int64_t[]){ROWS * 2, WIDTH / 2}, out);
}

static hr_status view_node(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                           hr_tensor **out, int *n_out)
{
    *n_out = 1;
    return view_of(in[0], &out[0]);
}

static hr_status view_slot(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                           hr_tensor **out, int *n_out)
{
    *n_out = 1;
    return view_of(in[0], &out[0]);
}

void rounds_begin(rounds *r, const char *backend)
{
    const int64_t shape[] = {ROWS * 2, WIDTH / 2};
    *r = (rounds){0};
    ok(hr_device_open(backend, NULL, &r->dev));
    hr_device_set_current(r->dev);
    ok(hr_set_streams(NULL, false));
    ok(hr_event_create(r->dev, &r->event));
    ok(hr_tensor_zeros(HR_F32, 2, shape, &r->x));
    ok(hr_tensor_set_requires_grad(r->x, true));
    ok(hr_tensor_zeros(HR_F32, 2, shape, &r->dy));
}

/* ---- single nodes --------------------------------------------------------------------- */
void nodes_make(rounds *r)
{
    hr_schedule_node_opts o = {HR_INIT(hr_schedule_node_opts), .name = "view",
                               .forward = view_node, .stream = hr_stream_current(),
                               .event = r->event};
    for (int i = 0; i < ROUND_NODES; i++)
        ok(hr_schedule_node_create(&o, &r->node[i]));
    ok(hr_device_synchronize(r->dev));
}

void nodes_run(rounds *r)
{
    for (int i = 0; i < ROUND_NODES; i++) {
        hr_tensor *const *out, *grad[HR_NODE_MAX];
        int n;
        ok(hr_node_forward(r->node[i], &r->x, 1, &out, &n));
        ok(hr_node_backward(r->node[i], &r->dy, 1, grad, &n));
        hr_tensor_release(grad[0]);
    }
}

void nodes_drop(rounds *r)
{
    ok(hr_device_synchronize(r->dev));
    for (int i = 0; i < ROUND_NODES; i++)
        hr_node_destroy(r->node[i]);
}

/* ---- layer pairs ---------------------------------------------------------------------- */
void pairs_make(rounds *r)
{
    hr_layer_desc layer = {HR_INIT(hr_layer_desc)};
    hr_layer_plan_opts o = {HR_INIT(hr_layer_plan_opts), .event = r->event,
                            .delay_wgrad = true};
    hr_tensor *out, *none;
    for (int s = 0; s < HR_SLOTS; s++)
        layer.slot[s] = view_slot;
    for (int i = 0; i <= ROUND_PAIRS; i++)
        ok(hr_layer_plan_create(&layer, &o, &r->plan[i]));
    ok(hr_layer_plan_run(r->plan[0], NULL, r->x, NULL, false, &out, &none));
    ok(hr_device_synchronize(r->dev));
}

void pairs_run(rounds *r)
{
    for (int i = 0; i < ROUND_PAIRS; i++) {
        hr_tensor *out, *grad;
        ok(hr_layer_plan_run(r->plan[i + 1], r->plan[i], r->x, r->dy, false, &out,
                             &grad));
        hr_tensor_release(grad);
    }
}

void pairs_drop(rounds *r)
{
    ok(hr_device_synchronize(r->dev));
    for (int i = 0; i <= ROUND_PAIRS; i++)
        hr_layer_plan_destroy(r->plan[i]);
}

/* ---- plans ------------------------------------------------------------------------------ */
void plans_keep(rounds *r) {}

static void build(rounds *r, hr_schedule_plan **out)
{
    hr_layer_desc layers[PLAN_LAYERS];
    for (int l = 0; l < PLAN_LAYERS; l++) {
        layers[l] = (hr_layer_desc){HR_INIT(hr_layer_desc), .number = l};
        for (int s = 0; s < HR_SLOTS; s++)
            layers[l].slot[s] = view_slot;
    }
    hr_chunk_desc chunk = {HR_INIT(hr_chunk_desc), .layers = layers,
                           .n_layers = PLAN_LAYERS, .vp_stage = HR_NO_STAGE};
    ok(hr_build_schedule_plan(
        &chunk, &r->x, 1,
        &(hr_build_plan_opts){HR_INIT(hr_build_plan_opts), .delay_wgrad = true}, out));
}

void plans_run(rounds *r)
{
    hr_schedule_plan *before = NULL;
    hr_plan_hooks none = {0};
    for (int i = 0; i <= ROUND_PLANS; i++) {
        hr_schedule_plan *plan = NULL;
        hr_tensor *out;
        if (i < ROUND_PLANS)
            build(r, &plan);
        ok(hr_schedule_plan_run(plan, before, before ? r->dy : NULL, &none, &out));
        hr_tensor_release(out);
        hr_schedule_plan_destroy(before);
        before = plan;
    }
}
