/* The optimiser: never worse than a generator, always within its limits, and the same every time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>

static const hr_stage_cost skew = {.f = HR_TICKS,
                                   .i = 12 * HR_TICKS / 10,
                                   .w = 8 * HR_TICKS / 10,
                                   .act_bytes = 100,
                                   .stash_bytes = 40,
                                   .boundary_bytes = 10};

static hr_optimise_opts sizes(int p, int v, int m)
{
    return (hr_optimise_opts){HR_INIT(hr_optimise_opts), .ranks = p,    .chunks = v,
                              .microbatches = m,         .cost = &skew, .costs = 1,
                              .comm = HR_TICKS / 10,     .steps = 300};
}

typedef struct result {
    hr_schedule *s;
    hr_optimise_report report;
    int64_t makespan, bytes;
    int act; /* of one of the schedule's own stages */
} result;

/* Runs it, and holds what was found and what was reported against the checker and the simulator. */
static result optimise(const hr_optimise_opts *o)
{
    result r = {.act = 0};
    hr_figures *f = NULL;
    int64_t bound = 0;
    if (hr_schedule_optimise(o, &r.s, &r.report) < 0 ||
        hr_schedule_check(r.s, NULL, NULL) < 0 ||
        hr_schedule_simulate(r.s, NULL, &f) < 0 || hr_schedule_bound(r.s, &bound) < 0) {
        fail_msg("p %d v %d m %d limits %d %lld: %s", o->ranks, o->chunks,
                 o->microbatches, o->max_act, (long long)o->max_bytes, hr_last_error());
        return r;
    }
    for (int k = 0; k < f->ranks; k++) {
        const hr_rank_figures *g = &f->rank[k];
        r.act = g->peak_act > r.act ? g->peak_act : r.act;
        r.bytes = g->peak_bytes > r.bytes ? g->peak_bytes : r.bytes;
    }
    r.makespan = f->makespan;
    hr_figures_destroy(f);
    assert_int_equal(r.report.makespan, r.makespan);
    assert_int_equal(r.report.bound, bound);
    assert_true(bound <= r.makespan);
    return r;
}

static void assert_refused(const hr_optimise_opts *o, const char *reason)
{
    static int before;
    hr_schedule *s = (hr_schedule *)&before; /* is overwritten */
    assert_int_equal(hr_schedule_optimise(o, &s, NULL), HR_ERR_INVALID);
    assert_null(s);
    assert_string_equal(hr_last_reason(), reason);
}

/* ---- beside the generators ---- */

/* The generator's schedule, made within `limit` unless that is 0, is no shorter if it is within the limit of
 * `o`. */
static void not_worse_than(const char *name, const hr_optimise_opts *o, int group,
                           int limit, const result *r)
{
    hr_generate_opts g = {HR_INIT(hr_generate_opts),
                          .ranks = o->ranks,
                          .chunks = o->chunks,
                          .microbatches = o->microbatches,
                          .group = group,
                          .max_act = limit,
                          .cost = o->cost,
                          .comm = o->comm};
    hr_schedule *s = NULL;
    hr_figures *f = NULL;
    if (hr_schedule_generate(name, &g, &s) < 0)
        return;
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
    hr_schedule_get_shape(s, &shape);
    assert_int_equal(hr_schedule_simulate(s, NULL, &f), HR_OK);
    int peak = 0;
    for (int k = 0; k < f->ranks; k++)
        peak = f->rank[k].peak_act > peak ? f->rank[k].peak_act : peak;
    bool counts = !shape.forward_only && shape.microbatches == o->microbatches &&
                  (o->max_act == 0 || peak <= o->max_act);
    if (counts && r->makespan > f->makespan)
        fail_msg("p %d v %d m %d limit %d: %s in groups of %d takes %lld, found %lld",
                 o->ranks, o->chunks, o->microbatches, o->max_act, name, group,
                 (long long)f->makespan, (long long)r->makespan);
    if (counts &&
        (r->report.generator == NULL || r->report.generator_makespan > f->makespan))
        fail_msg("p %d v %d m %d limit %d: %s in groups of %d takes %lld, the best "
                 "generator is said to take %lld",
                 o->ranks, o->chunks, o->microbatches, o->max_act, name, group,
                 (long long)f->makespan, (long long)r->report.generator_makespan);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void is_never_worse_than_a_generator(void **state)
{
    static const int counts[] = {1, 2, 3, 5, 8};
    for (int k = 0; k < 4 * 2 * 5 * 3; k++) {
        hr_optimise_opts o = sizes(1 + k % 4, 1 + k / 4 % 2, counts[k / 8 % 5]);
        o.max_act = k / 40 == 0 ? 0 : k / 40 == 1 ? o.ranks * o.chunks : o.chunks + 1;
        o.placements = 1u << HR_PLACEMENT_LOOP | 1u << HR_PLACEMENT_V |
                       1u << HR_PLACEMENT_BIDIRECTIONAL;
        result r = optimise(&o);
        const char *name;
        for (int i = 0; (name = hr_schedule_name(i)) != NULL; i++)
            for (int group = 0; group <= o.microbatches; group++) {
                not_worse_than(name, &o, group, 0, &r);
                not_worse_than(name, &o, group, o.max_act, &r);
            }
        hr_schedule_destroy(r.s);
    }
}

static void large_ones_are_made_by_rule(void **state)
{
    const hr_stage_cost unit = {.f = HR_TICKS, .i = HR_TICKS, .w = HR_TICKS};
    hr_optimise_opts o = sizes(8, 2, 2100);
    o.cost = &unit;
    o.comm = 0;
    o.max_act = 10;
    o.steps = -1;
    result r = optimise(&o);
    not_worse_than("v-half", &o, 0, 0, &r);
    not_worse_than("v-min", &o, 0, 0, &r);
    hr_schedule_destroy(r.s);
}

static void finds_more_than_any_generator_does(void **state)
{
    hr_optimise_opts o = sizes(4, 2, 4);
    o.max_act = 4;
    o.steps = 10000;
    result r = optimise(&o);
    assert_true(r.report.searched);
    assert_non_null(r.report.generator);
    assert_true(r.makespan < r.report.generator_makespan);
    assert_true(r.report.steps > 0);
    hr_schedule_destroy(r.s);
}

static void without_steps_is_the_best_generator(void **state)
{
    hr_optimise_opts o = sizes(4, 1, 8);
    o.max_act = 4;
    o.steps = -1;
    result r = optimise(&o);
    assert_int_equal(r.report.steps, 0);
    assert_true(r.makespan <= r.report.generator_makespan);
    hr_schedule_destroy(r.s);
}

static void pairs_that_save_time_are_used(void **state)
{
    for (int chunks = 1; chunks <= 2; chunks++) { /* of one no generator has pairs */
        hr_optimise_opts o = sizes(4, chunks, 10);
        o.pair_discount = 25;
        result r = optimise(&o);
        size_t n = 0;
        int pairs = 0;
        const hr_action *a = hr_schedule_order(r.s, 0, &n);
        for (size_t i = 0; i < n; i++)
            pairs += a[i].pair > 1;
        assert_true(pairs > 0);
        hr_schedule_destroy(r.s);
    }
}

static void keeps_backwards_whole(void **state)
{
    hr_optimise_opts o = sizes(4, 2, 8);
    o.whole_backward = true;
    o.max_act = 7;
    result r = optimise(&o);
    for (int k = 0; k < 4; k++) {
        size_t n = 0;
        const hr_action *a = hr_schedule_order(r.s, k, &n);
        for (size_t i = 0; i < n; i++)
            assert_true(a[i].kind == HR_ACTION_F || a[i].kind == HR_ACTION_B);
    }
    hr_schedule_destroy(r.s);
}

/* ---- limits ---- */

static void limits_are_kept(void **state)
{
    for (int k = 0; k < 24; k++) {
        hr_optimise_opts o = sizes(4, 1 + k % 2, 9);
        o.max_act = k % 3 ? o.chunks + k % 7 : 0;
        o.max_bytes = k % 3 != 1 ? o.chunks * 100 + k * 35 : 0;
        o.fewer_chunks = k % 4 == 1;
        result r = optimise(&o);
        hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
        hr_schedule_get_shape(r.s, &shape);
        int larger = o.chunks * o.ranks / shape.stages;
        if (o.max_act > 0)
            assert_in_range(r.act * larger, 1, o.max_act);
        if (o.max_bytes > 0)
            assert_in_range(r.bytes, 1, o.max_bytes);
        hr_schedule_destroy(r.s);
    }
}

static void more_room_is_used(void **state)
{
    hr_optimise_opts o = sizes(4, 1, 12);
    int64_t last = INT64_MAX;
    for (o.max_bytes = 100; o.max_bytes <= 500; o.max_bytes += 100) {
        result r = optimise(&o);
        assert_true(r.makespan < last);
        last = r.makespan;
        hr_schedule_destroy(r.s);
    }
}

static void says_the_smallest_limit_of_activations(void **state)
{
    hr_optimise_opts o = sizes(3, 4, 6);
    hr_schedule *s = NULL;
    hr_optimise_report report;
    o.max_act = 3;
    assert_refused(&o, "infeasible");
    assert_non_null(strstr(hr_last_error(), "limit is 4 activations"));
    assert_int_equal(hr_schedule_optimise(&o, &s, &report), HR_ERR_INVALID);
    assert_int_equal(report.least_act, 4);
    o.max_act = report.least_act;
    result r = optimise(&o);
    assert_int_equal(r.act, 4);
    hr_schedule_destroy(r.s);
}

static void says_the_smallest_limit_of_bytes(void **state)
{
    for (int again = 0; again < 2; again++) {
        hr_stage_cost cost = skew;
        cost.recompute = again > 0;
        hr_optimise_opts o = sizes(3, 2, 6);
        o.cost = &cost;
        o.max_bytes = 1;
        assert_refused(&o, "infeasible");
        long long least = again ? 110 : 200;
        char say[64];
        snprintf(say, sizeof say, "limit is %lld bytes", least);
        assert_non_null(strstr(hr_last_error(), say));
        o.max_bytes = least - 1;
        assert_refused(&o, "infeasible");
        o.max_bytes = least;
        result r = optimise(&o);
        assert_int_equal(r.bytes, least);
        assert_int_equal(r.report.least_bytes, least);
        hr_schedule_destroy(r.s);
    }
}

/* ---- costs of each stage ---- */

static void larger_stages_cost_what_they_are_made_of(void **state)
{
    hr_stage_cost cost[8];
    for (int k = 0; k < 8; k++) {
        cost[k] = skew;
        cost[k].f = (k + 1) * HR_TICKS;
    }
    hr_optimise_opts o = sizes(4, 2, 8);
    o.cost = cost;
    o.costs = 8;
    o.fewer_chunks = true;
    o.placements = 1u << HR_PLACEMENT_BIDIRECTIONAL;
    result r = optimise(&o);
    hr_stage_cost c;
    hr_schedule_get_cost(r.s, 1, &c);
    assert_int_equal(c.f, 7 * HR_TICKS);
    assert_int_equal(c.w, 2 * skew.w);
    assert_int_equal(c.act_bytes, 200);
    hr_schedule_destroy(r.s);
}

/* ---- the same every time ---- */

static void a_seed_gives_the_same_schedule(void **state)
{
    hr_optimise_opts o = sizes(4, 2, 6);
    o.max_act = 5;
    o.steps = 2000;
    o.seed = 7;
    result a = optimise(&o);
    result b = optimise(&o);
    assert_true(hr_schedule_equal(a.s, b.s));
    assert_int_equal(a.report.steps, b.report.steps);
    hr_schedule_destroy(a.s);
    hr_schedule_destroy(b.s);
}

typedef struct watch {
    int64_t calls, step, steps;
    int64_t makespan;
} watch;

static void look(void *arg, const hr_optimise_progress *now)
{
    watch *w = arg;
    w->calls++;
    w->steps = now->step >= w->step && now->makespan <= w->makespan ? now->steps : -1;
    w->step = now->step;
    w->makespan = now->makespan;
}

static void progress_goes_forward(void **state)
{
    watch w = {.makespan = INT64_MAX};
    hr_optimise_opts o = sizes(4, 2, 4);
    o.max_act = 4;
    o.steps = 8000;
    o.progress = look;
    o.arg = &w;
    result r = optimise(&o);
    assert_true(w.calls > 1);
    assert_int_equal(w.steps, 8000);
    assert_true(w.makespan < r.report.generator_makespan);
    hr_schedule_destroy(r.s);
}

static void time_that_is_over_stops_the_search(void **state)
{
    hr_optimise_opts o = sizes(4, 2, 6);
    o.max_act = 5;
    o.steps = INT64_C(1) << 40;
    o.seconds = 1e-9;
    result r = optimise(&o);
    assert_true(r.report.steps < 1000);
    hr_schedule_destroy(r.s);
}

static void auto_is_what_the_optimiser_finds(void **state)
{
    hr_generate_opts g = {HR_INIT(hr_generate_opts),
                          .ranks = 2,
                          .microbatches = 3,
                          .chunks = 2,
                          .max_act = 3,
                          .cost = &skew,
                          .comm = HR_TICKS / 10};
    hr_optimise_opts o = sizes(2, 2, 3);
    hr_schedule *s = NULL;
    o.max_act = 3;
    o.steps = 0;
    result r = optimise(&o);
    assert_int_equal(hr_schedule_generate("auto", &g, &s), HR_OK);
    assert_true(hr_schedule_equal(s, r.s));
    hr_schedule_destroy(s);
    hr_schedule_destroy(r.s);
    g.group = 2;
    assert_int_equal(hr_schedule_generate("auto", &g, &s), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "schedule_refused");
}

static void options_that_cannot_be_are_refused(void **state)
{
    const hr_optimise_opts good = sizes(2, 2, 4);
    hr_optimise_opts bad[12];
    for (int k = 0; k < 12; k++)
        bad[k] = good;
    bad[0].ranks = 0;
    bad[1].microbatches = -1;
    bad[2].chunks = -1;
    bad[3].placements = 1u << HR_PLACEMENT_MAP;
    bad[4].max_act = -1;
    bad[5].max_bytes = -1;
    bad[6].seconds = -1;
    bad[7].costs = 3;
    bad[8].microbatches = 1 << 30;
    bad[9].ranks = 1 << 30;
    bad[10].comm = -1;
    bad[11].placements = 1u << HR_PLACEMENT_BIDIRECTIONAL; /* has one chunk */
    for (int k = 0; k < 12; k++)
        assert_refused(&bad[k], "optimise_option");
    hr_optimise_opts other = good;
    other.size--;
    assert_refused(&other, "opts_size");
    hr_schedule *s = NULL;
    assert_int_equal(hr_schedule_optimise(NULL, &s, NULL), HR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_never_worse_than_a_generator),
        cmocka_unit_test(large_ones_are_made_by_rule),
        cmocka_unit_test(finds_more_than_any_generator_does),
        cmocka_unit_test(without_steps_is_the_best_generator),
        cmocka_unit_test(pairs_that_save_time_are_used),
        cmocka_unit_test(keeps_backwards_whole),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(more_room_is_used),
        cmocka_unit_test(says_the_smallest_limit_of_activations),
        cmocka_unit_test(says_the_smallest_limit_of_bytes),
        cmocka_unit_test(larger_stages_cost_what_they_are_made_of),
        cmocka_unit_test(a_seed_gives_the_same_schedule),
        cmocka_unit_test(progress_goes_forward),
        cmocka_unit_test(time_that_is_over_stops_the_search),
        cmocka_unit_test(auto_is_what_the_optimiser_finds),
        cmocka_unit_test(options_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
