#include "unit/moe/moe_runs.h"
#include "base/try.h" /* HR_TRY */
#include "support/backend.h"

typedef struct step {
    int b, slot, backward;
} step;

static const step serial[] = {
    {0, SLOT_PRE, 0},      {0, SLOT_DISPATCH, 0}, {0, SLOT_MLP, 0},
    {0, SLOT_COMBINE, 0},  {0, SLOT_COMBINE, 1},  {0, SLOT_MLP, 1},
    {0, SLOT_DISPATCH, 1}, {0, SLOT_PRE, 1},      {1, SLOT_PRE, 0},
    {1, SLOT_DISPATCH, 0}, {1, SLOT_MLP, 0},      {1, SLOT_COMBINE, 0},
    {1, SLOT_COMBINE, 1},  {1, SLOT_MLP, 1},      {1, SLOT_DISPATCH, 1},
    {1, SLOT_PRE, 1}};

static const step interleaved[] = {
    {0, SLOT_PRE, 0},      {0, SLOT_DISPATCH, 0}, {0, SLOT_MLP, 0},
    {0, SLOT_COMBINE, 0},  {1, SLOT_PRE, 0},      {0, SLOT_COMBINE, 1},
    {1, SLOT_DISPATCH, 0}, {0, SLOT_MLP, 1},      {1, SLOT_MLP, 0},
    {0, SLOT_DISPATCH, 1}, {0, SLOT_PRE, 1},      {1, SLOT_COMBINE, 0},
    {1, SLOT_COMBINE, 1},  {1, SLOT_MLP, 1},      {1, SLOT_DISPATCH, 1},
    {1, SLOT_PRE, 1}};

static hr_status run_steps(moe_flow *f, run_order order)
{
    const step *steps = order == RUN_INTERLEAVED ? interleaved : serial;
    const int n = sizeof serial / sizeof serial[0];

    for (int i = 0; i < n; i++) {
        moe_flow *at = &f[steps[i].b];

        if (!steps[i].backward)
            HR_TRY(flow_forward(at, steps[i].slot));
        else if (order != RUN_WHOLE || steps[i].slot == SLOT_COMBINE)
            HR_TRY(flow_backward(at, steps[i].slot));
    }
    return HR_OK;
}

hr_status run_microbatches(moe_rank *r, run_order order, moe_result *into)
{
    moe_flow f[CASE_MICROBATCHES] = {{0}};
    hr_status st = HR_OK;

    for (int b = 0; st >= 0 && b < CASE_MICROBATCHES; b++) {
        st = flow_begin(r, b, &f[b]);
        f[b].whole = order == RUN_WHOLE;
    }
    if (st >= 0)
        st = run_steps(f, order);
    for (int b = 0; st >= 0 && into != NULL && b < CASE_MICROBATCHES; b++)
        st = flow_read(&f[b], into);
    for (int b = 0; b < CASE_MICROBATCHES; b++)
        flow_end(&f[b]);
    return st;
}

static hr_status run_rank(hr_group *world, void *arg)
{
    const moe_run *run = arg;
    hr_device *dev = hr_group_device(world);
    moe_rank r;

    HR_TRY(hr_device_set_timeline(dev, run->timeline));
    hr_status st = rank_begin(run->c, world, run->two_streams, &r);
    if (st >= 0)
        st = run_microbatches(&r, run->order, run->result);
    if (st >= 0)
        st = hr_device_synchronize(dev);
    if (st >= 0 && run->result != NULL)
        st = rank_read(&r, run->result);
    rank_end(&r);
    return st;
}

hr_status run_case(moe_run *run)
{
    const hr_local_opts opts = {
        HR_INIT(hr_local_opts),
        .backend = test_backend(),
        .timeout_s = 60.0,
        .device = {HR_INIT(hr_device_opts), .memory = run->memory},
    };
    return hr_local_run(run->c->ranks, &opts, run_rank, run);
}
