/* The handy model under every schedule, over every transport: exact gradients, in all modes of
 * scale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "unit/exec/handy.h"

static void expect_done_over(const char *engine, int ranks, hr_rank_fn fn, void *arg)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 20, .engine = engine,
                       .delay_us = 2000};
    o.device = (hr_device_opts){HR_INIT(hr_device_opts), .poison = 1};
    if (hr_local_run(ranks, &o, fn, arg) < 0)
        fail_msg("%s: %s", engine, hr_last_error());
}

static void expect_done(int ranks, hr_rank_fn fn, void *arg)
{
    expect_done_over("local", ranks, fn, arg);
}

/* ---- every schedule ------------------------------------------------------------------------ */
struct ask {
    int tp, dp;
    bool pairs, vary;
    const char *const *names; /* NULL: all */
};

static int pairs_of(const hr_schedule *s, int rank)
{
    size_t n;
    int pairs = 0;
    const hr_action *a = hr_schedule_order(s, rank, &n);
    for (size_t i = 0; i < n; i++)
        pairs += a[i].pair == 2;
    return pairs;
}

static hr_status run_modes(handy *h, const hr_schedule *s, const hr_program *p)
{
    int pairs = h->pairs ? pairs_of(s, hr_group_rank(h->pp)) : 0;
    for (int mode = HR_LOSS_SUM; mode <= HR_LOSS_MEAN_TOKEN; mode++) {
        HR_TRY(handy_step(h, s, p, (hr_loss_mode)mode));
        HOLDS(h->paired == pairs);
    }
    return HR_OK;
}

static hr_status steps_of(handy *h, const char *name)
{
    hr_schedule *s;
    hr_program *p;
    hr_status st = handy_generate(h, name, 0, 8, &s, &p);
    if (st == HR_ERR_UNSUPPORTED && strcmp(name, "seq-1f1b") == 0)
        return HR_OK; /* parts of sequences */
    if (st == HR_ERR_INVALID && strcmp(hr_last_reason(), "schedule_refused") == 0 &&
        hr_group_size(h->pp) % 2)
        return HR_OK; /* wants an even number of ranks */
    HR_TRY(st);
    st = run_modes(h, s, p);
    hr_program_destroy(p);
    hr_schedule_destroy(s);
    return st < 0 ? hr_fail(st, NULL, "%s: %s", name, hr_last_error()) : st;
}

static const char *name_of(const struct ask *ask, int i)
{
    return ask->names ? ask->names[i] : hr_schedule_name(i);
}

static hr_status every_schedule(hr_group *world, void *arg)
{
    static const int lengths[8] = {3, 1, 7, 2, 5, 1, 4, 6};
    const struct ask *ask = arg;
    handy h;
    HR_TRY(handy_init(&h, world, ask->tp ? ask->tp : 1, ask->dp ? ask->dp : 1));
    h.pairs = ask->pairs;
    h.vary = ask->vary;
    for (int m = 0; ask->vary && m < 8; m++)
        h.length[m] = lengths[(m + h.line) % 8]; /* each pipeline its own */
    hr_status st = HR_OK;
    for (int i = 0; st >= 0 && name_of(ask, i); i++)
        st = steps_of(&h, name_of(ask, i));
    handy_fini(&h);
    return st;
}

static void every_schedule_gives_exact_gradients(void **state)
{
    expect_done(4, every_schedule, &(struct ask){0});
}

static void two_pipelines_share_the_scale(void **state)
{
    expect_done(8, every_schedule, &(struct ask){.dp = 2});
}

/* Outputs leave from the hooks of pairs, half of them from another stream. */
static void pairs_with_hooks_give_exact_gradients(void **state)
{
    expect_done(4, every_schedule, &(struct ask){.pairs = true});
}

static void every_transport_gives_exact_gradients(void **state)
{
    static const char *const names[] = {"1f1b", "combined", "zbv", "dualpipe", NULL};
    for (int i = 0; hr_local_engine_name(i); i++)
        for (int k = 0; k < 2; k++)
            expect_done_over(hr_local_engine_name(i), 4, every_schedule,
                             &(struct ask){.pairs = k, .vary = k, .names = names});
}

/* ---- pain 1 -------------------------------------------------------------------------------- */
static void pain_1_lengths_that_vary_do_not_hang(void **state)
{
    for (int ranks = 4; ranks <= 5; ranks++)
        for (int k = 0; k < 2; k++)
            expect_done_over("local-rendezvous", ranks, every_schedule,
                             &(struct ask){.pairs = k, .vary = true});
}

/* Two tensor-parallel ranks a stage: rank 1 exchanges shapes with rank 3, not with rank 2. */
static void pain_1_shapes_go_to_ones_own_neighbours(void **state)
{
    static const char *const names[] = {"1f1b", "interleaved", NULL};
    expect_done_over("local-rendezvous", 8, every_schedule,
                     &(struct ask){.tp = 2, .vary = true, .names = names});
}

/* ---- pain 8 -------------------------------------------------------------------------------- */
/* Token counts 1 and 3, gradient sums 4 and 6, of the first weight and by the product of the others. */
static void take_figures(handy *h)
{
    h->vary = true;
    if (h->dp == 1) { /* x is 1, then 2 */
        h->length[0] = 4;
        h->length[1] = 3;
        h->tokens[0] = 1;
        h->tokens[1] = 3;
    } else {
        h->length[0] = h->line ? 6 : 4;
        h->tokens[0] = h->line ? 3 : 1;
    }
}

static hr_status check_figures(handy *h, const hr_program *p)
{
    static const double want[] = {
        [HR_LOSS_SUM] = 10, [HR_LOSS_MEAN_MICROBATCH] = 3, [HR_LOSS_MEAN_TOKEN] = 2.5};
    double others = 1;
    for (int i = 1; i < h->stages; i++)
        others *= handy_weight(i);
    for (int mode = HR_LOSS_SUM; mode <= HR_LOSS_MEAN_TOKEN; mode++) {
        hr_exec_step_opts o = {HR_INIT(hr_exec_step_opts), .mode = (hr_loss_mode)mode};
        hr_step_counts counts;
        float dw[HANDY_STAGES];
        HR_TRY(handy_zero(h));
        HR_TRY(hr_exec_step(h->e, p, &o, &counts));
        HR_TRY(handy_sums(h, h->world, dw));
        HOLDS(fabs(dw[0] / others - want[mode]) < 1e-6 * want[mode]);
        HOLDS(counts.microbatches == 2);
        HOLDS(counts.tokens == (mode == HR_LOSS_MEAN_TOKEN ? 4 : 0));
    }
    return HR_OK;
}

static hr_status figures(hr_group *world, void *arg)
{
    int dp = *(const int *)arg;
    hr_schedule *s;
    hr_program *p;
    handy h;
    HR_TRY(handy_init(&h, world, 1, dp));
    take_figures(&h);
    hr_status st = handy_generate(&h, "1f1b", 1, 2 / dp, &s, &p);
    if (st >= 0)
        st = check_figures(&h, p);
    hr_program_destroy(p);
    hr_schedule_destroy(s);
    handy_fini(&h);
    return st;
}

static void pain_8_three_modes_on_1_2_and_4_stages_and_2_pipelines(void **state)
{
    for (int dp = 1; dp <= 2; dp++)
        for (int stages = 1; stages <= 4; stages *= 2)
            expect_done(stages * dp, figures, &dp);
}

/* ---- pain 10 ------------------------------------------------------------------------------- */
/* The stages count them by parameter, and refuse one that comes behind the reduction. */
static void pain_10_each_weight_gradient_runs_once_before_its_reduction(void **state)
{
    static const char *const names[] = {"zb-h1", "zb-h2", "interleaved-zb", "zbv",
                                        NULL};
    for (int vary = 0; vary < 2; vary++)
        expect_done(3, every_schedule, &(struct ask){.vary = vary, .names = names});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_gives_exact_gradients),
        cmocka_unit_test(two_pipelines_share_the_scale),
        cmocka_unit_test(pairs_with_hooks_give_exact_gradients),
        cmocka_unit_test(every_transport_gives_exact_gradients),
        cmocka_unit_test(pain_1_lengths_that_vary_do_not_hang),
        cmocka_unit_test(pain_1_shapes_go_to_ones_own_neighbours),
        cmocka_unit_test(pain_8_three_modes_on_1_2_and_4_stages_and_2_pipelines),
        cmocka_unit_test(pain_10_each_weight_gradient_runs_once_before_its_reduction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
