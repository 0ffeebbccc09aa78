/* See lab.h. */
#include "lab.h"

#include <stdlib.h>
#include <string.h>

#include "support/backend.h"
#include "toy_ops.h"

/* ---- what programs are made of ---- */
static hr_tensor *keep(lab *l, hr_tensor *t)
{
    return l->kept[l->n_kept++] = t;
}

hr_status lab_tensor(lab *l, const char *name, hr_tensor **out)
{
    hr_tensor *t;
    HR_TRY(hr_tensor_zeros(HR_F32, 2, (int64_t[]){LAB_ROWS, TOY_WIDTH}, &t));
    *out = keep(l, t);
    hr_tensor_set_name(t, name);
    return hr_tensor_set_requires_grad(t, true);
}

static hr_status forward(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    const lab_work *w = ctx;
    hr_status st = w->group  ? toy_exchange(w->group, in[0], 0, &out[0])
                   : w->side ? toy_add(in[0], w->side, &out[0])
                   : w->w    ? toy_scale(in[0], w->w, w->queue, &out[0])
                             : toy_bend(in[0], &out[0]);
    if (st >= 0)
        hr_tensor_set_name(out[0], w->output);
    *n_out = st >= 0;
    return st;
}

hr_status lab_node(lab *l, const char *name, hr_stream *s, hr_event *e, lab_work *work,
                   hr_node **out)
{
    hr_schedule_node_opts o = {HR_INIT(hr_schedule_node_opts),
                               .name = name,
                               .forward = forward,
                               .ctx = work,
                               .stream = s,
                               .event = e,
                               .free_input = work->free_input,
                               .wgrad_queue = work->queue};
    HR_TRY(hr_schedule_node_create(&o, out));
    hr_node_set_mark(*out, work->layer ? work->layer : LAB_LAYER, LAB_MICROBATCH);
    l->nodes[l->n_nodes++] = *out;
    return HR_OK;
}

hr_status lab_forward(hr_node *node, hr_tensor *x, hr_tensor **y)
{
    hr_tensor *const *out;
    int n;
    HR_TRY(hr_node_forward(node, &x, 1, &out, &n));
    *y = out[0];
    return HR_OK;
}

hr_status lab_backward(lab *l, hr_node *node, hr_tensor *dy)
{
    hr_tensor *dx[HR_NODE_MAX];
    int n;
    HR_TRY(hr_node_backward(node, &dy, 1, dx, &n));
    for (int i = 0; i < n; i++)
        if (dx[i])
            keep(l, dx[i]);
    return HR_OK;
}

hr_status lab_order(lab *l, hr_stream *first, hr_stream *then)
{
    hr_event *e;
    HR_TRY(hr_event_create(l->dev, &e));
    hr_status st = hr_event_record(e, first);
    if (st >= 0)
        st = hr_event_wait(e, then);
    hr_event_destroy(e);
    return st;
}

/* ---- running them ---- */
static hr_status stream(lab *l, const char *name, hr_stream **out)
{
    hr_stream_opts o = {HR_INIT(hr_stream_opts), .name = name};
    return hr_stream_create(l->dev, &o, out);
}

/* What is still held when the streams are empty may go in any order. */
static void tidy(lab *l)
{
    hr_status drained = hr_device_synchronize(l->dev);
    (void)drained;
    for (int i = 0; i < l->n_nodes; i++)
        hr_node_destroy(l->nodes[i]);
    for (int i = 0; i < l->n_kept; i++)
        hr_tensor_release(l->kept[i]);
}

struct job {
    const mistake *m;
    bool right;
};

static hr_status rank_main(hr_group *world, void *arg)
{
    const struct job *j = arg;
    lab l = {.right = j->right,
             .rank = hr_group_rank(world),
             .world = world,
             .dev = hr_group_device(world)};
    l.compute = hr_device_default_stream(l.dev);
    HR_TRY(stream(&l, "communication", &l.comm));
    HR_TRY(stream(&l, "counts", &l.counts));
    HR_TRY(hr_event_create(l.dev, &l.event));
    hr_status st = j->m->program(&l);
    if (st >= 0)
        st = hr_device_synchronize(l.dev);
    else
        hr_device_fail(l.dev, st); /* a peer may wait for us */
    tidy(&l);
    return st;
}

static hr_status run(const mistake *m, bool right)
{
    struct job j = {m, right};
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 60,
                       .backend = test_backend(),
                       .device = {HR_INIT(hr_device_opts), .check = 1, .poison = -1}};
    return hr_local_run(m->ranks, &o, rank_main, &j);
}

static void swallow(void *ctx, hr_log_level level, int rank, const char *line) {}

static void is_found_and_its_correction_passes(void **state)
{
    const mistake *m = *state;
    hr_log_set_sink(swallow, NULL);
    hr_status right = run(m, true);
    if (right < 0)
        fail_msg("the correct program is blamed: %s", hr_last_error());
    hr_status wrong = run(m, false);
    hr_log_set_sink(NULL, NULL);
    assert_int_equal(wrong, HR_ERR_STATE);
    if (getenv("LAB_SHOW"))
        print_message("%s\n", hr_last_error());
    if (strcmp(hr_last_reason(), m->reason) != 0)
        fail_msg("found as %s: %s", hr_last_reason(), hr_last_error());
    for (int i = 0; i < 6 && m->words[i]; i++)
        if (!strstr(hr_last_error(), m->words[i]))
            fail_msg("no word of %s: %s", m->words[i], hr_last_error());
}

int lab_main(const mistake *table, int n)
{
    struct CMUnitTest *tests = test_calloc((size_t)n, sizeof *tests);
    for (int i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){.name = table[i].name,
                                       .test_func = is_found_and_its_correction_passes,
                                       .initial_state = (void *)(uintptr_t)&table[i]};
    int failed = _cmocka_run_group_tests("mistakes", tests, (size_t)n, NULL, NULL);
    test_free(tests);
    return failed;
}
