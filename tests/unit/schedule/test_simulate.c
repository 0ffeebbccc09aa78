/* The figures of schedules that are small enough to be worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

#include <math.h>
#include <string.h>

static hr_schedule *schedule_of(const char *costs, const char *orders)
{
    char text[2000];
    hr_schedule *s = NULL;
    int n = snprintf(text, sizeof text,
                     "headrace schedule 1\nranks 2\nstages 2\nmicrobatches 2\n"
                     "placement loop\n%s%s",
                     costs, orders);
    if (hr_schedule_parse(text, (size_t)n, &s) < 0)
        fail_msg("%s", hr_last_error());
    return s;
}

static hr_figures *simulate(const hr_schedule *s, const hr_simulate_opts *opts)
{
    hr_figures *f = NULL;
    if (hr_schedule_simulate(s, opts, &f) < 0)
        fail_msg("%s", hr_last_error());
    return f;
}

static const char one_f_one_b[] = "rank 0 0F0 0F1 0B0 0B1\nrank 1 1F0 1B0 1F1 1B1\n";
static const char skew[] = "comm 0.1\ncost all 1 1.2 0.8\n";

static void times_are_exact(void **state)
{
    hr_schedule *s = schedule_of(skew, one_f_one_b);
    hr_figures *f = simulate(s, NULL);
    assert_int_equal(f->makespan, 9200000);
    assert_int_equal(f->span, 9200000);
    assert_int_equal(f->rank[1].first, 1100000);
    assert_int_equal(f->rank[1].last, 7100000);
    assert_int_equal(f->rank[1].busy, 6000000);
    assert_true(fabs(f->rank[0].bubble - 3.2 / 9.2) < 1e-12);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void recomputing_costs_a_forward_and_holds_the_boundary(void **state)
{
    hr_schedule *s = schedule_of("bytes all 10 6 1\nrecompute 0\n", one_f_one_b);
    hr_figures *f = simulate(s, NULL);
    assert_int_equal(f->rank[0].busy, 8 * HR_TICKS);
    assert_int_equal(f->rank[1].busy, 6 * HR_TICKS);
    assert_int_equal(f->rank[0].peak_bytes, 11); /* one at work, one boundary */
    assert_int_equal(f->rank[1].peak_bytes, 10);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void peaks_follow_the_order(void **state)
{
    hr_schedule *s =
        schedule_of("bytes all 10 6 1\n", "rank 0 0F0 0F1 0I0 0I1 0W0 0W1\n"
                                          "rank 1 1F0 1F1 1I0 1W0 1I1 1W1\n");
    hr_figures *f = simulate(s, NULL);
    assert_int_equal(f->rank[0].peak_act, 2);
    assert_int_equal(f->rank[0].peak_act_i, 2);
    assert_int_equal(f->rank[0].peak_wstash, 2);
    assert_int_equal(f->rank[0].peak_bytes, 20);
    assert_int_equal(f->rank[1].peak_act, 2);
    assert_int_equal(f->rank[1].peak_wstash, 1);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void pairs_may_be_shorter_or_split(void **state)
{
    hr_schedule *s = schedule_of("pair-discount 10\n",
                                 "rank 0 0F0 0F1 0B0 0B1\nrank 1 1F0 (1F1;1B0) 1B1\n");
    hr_figures *f = simulate(s, NULL);
    assert_int_equal(f->rank[1].busy, 57 * HR_TICKS / 10);
    hr_figures_destroy(f);
    f = simulate(s,
                 &(hr_simulate_opts){HR_INIT(hr_simulate_opts), .split_pairs = true});
    assert_int_equal(f->rank[1].busy, 6 * HR_TICKS);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void blocking_transfers_hold_both_ranks(void **state)
{
    static const char lowered[] =
        "rank 0 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
        "rank 1 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1\n";
    hr_schedule *s = schedule_of(skew, lowered);
    hr_figures *f = simulate(s, NULL);
    assert_int_equal(f->makespan, 9200000); /* 1 + .1 + 1 + 1 + 2 + 2 + .1 + 2 */
    hr_figures_destroy(f);
    f = simulate(s, &(hr_simulate_opts){HR_INIT(hr_simulate_opts), .blocking = true});
    assert_int_equal(f->makespan, 9400000); /* the second send and B0's add .1 each */
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void what_cannot_run_has_no_figures(void **state)
{
    hr_figures *f = NULL;
    hr_schedule *s = schedule_of("", "rank 0 0B0 0F0\nrank 1\n");
    assert_int_equal(hr_schedule_simulate(s, NULL, &f), HR_ERR_INVALID);
    assert_null(f);
    assert_string_equal(hr_last_reason(), "deadlock");
    hr_schedule_destroy(s);
    s = schedule_of("", one_f_one_b);
    assert_int_equal(
        hr_schedule_simulate(
            s, &(hr_simulate_opts){HR_INIT(hr_simulate_opts), .blocking = true}, &f),
        HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "not_lowered");
    hr_schedule_destroy(s);
}

static void gaps_are_counted_between_slots(void **state)
{
    hr_schedule *s = schedule_of(skew, one_f_one_b);
    hr_figures *f = simulate(s, NULL);
    assert_int_equal(f->rank[0].gaps, 2); /* 2 to 4.2, and 6.2 to 7.2 */
    assert_int_equal(f->rank[0].longest_gap, 2200000);
    assert_int_equal(f->rank[1].gaps, 0);
    assert_int_equal(f->rank[1].longest_gap, 0);
    assert_null(f->rank[0].time);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void each_action_has_its_time(void **state)
{
    static const char lowered[] =
        "rank 0 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
        "rank 1 1RECV_F0 1F0 1RECV_F1 (1F1;1B0) 1SEND_B0 1B1 1SEND_B1\n";
    static const int64_t rank1[2][8][2] = {
        {{0, 0}, {11, 21}, {21, 21}, {21, 51}, {21, 51}, {51, 51}, {51, 71}, {71, 71}},
        {{10, 11},
         {11, 21},
         {21, 22},
         {22, 52},
         {22, 52},
         {52, 53},
         {53, 73},
         {73, 74}}};
    hr_schedule *s = schedule_of(skew, lowered);
    for (int blocking = 0; blocking < 2; blocking++) {
        hr_figures *f =
            simulate(s, &(hr_simulate_opts){HR_INIT(hr_simulate_opts), .times = true,
                                            .blocking = blocking});
        for (int i = 0; i < 8; i++) {
            assert_int_equal(f->rank[1].time[i].start, rank1[blocking][i][0] * 100000);
            assert_int_equal(f->rank[1].time[i].end, rank1[blocking][i][1] * 100000);
        }
        assert_int_equal(f->rank[0].time[7].end, f->makespan);
        hr_figures_destroy(f);
    }
    hr_schedule_destroy(s);
}

static int64_t bound_of(const hr_schedule *s)
{
    int64_t bound = -1;
    if (hr_schedule_bound(s, &bound) < 0)
        fail_msg("%s", hr_last_error());
    return bound;
}

static void bounds_are_those_of_the_dearest_rank_or_chain(void **state)
{
    /* Rank 1 waits for 1F0 (1.1), works 6, then 0B1 follows (.1 + 2). */
    hr_schedule *s = schedule_of(skew, one_f_one_b);
    assert_int_equal(bound_of(s), 9200000);
    hr_schedule_destroy(s);
    /* Split, rank 1 may end with a W: 1.1 + 6. */
    s = schedule_of(skew, "rank 0 0F0 0F1 0B0 0B1\nrank 1 1F0 1I0 1F1 1I1 1W0 1W1\n");
    assert_int_equal(bound_of(s), 7100000);
    hr_schedule_destroy(s);
    s = schedule_of("forward-only\ncomm 5\n", "rank 0 0F0 0F1\nrank 1 1F0 1F1\n");
    assert_int_equal(bound_of(s), 8 * HR_TICKS); /* 2 + 5 + 1 */
    hr_schedule_destroy(s);
    /* Transfers so slow that one microbatch's way counts: F, 50, F and I, 50, I, W. */
    s = schedule_of("comm 50\n", "rank 0 0F0 0F1 0I0 0I1 0W0 0W1\n"
                                 "rank 1 1F0 1F1 1I0 1I1 1W0 1W1\n");
    assert_int_equal(bound_of(s), 105 * HR_TICKS);
    hr_schedule_destroy(s);
    /* Half of each pair is saved, which the chain may not count in full. */
    s = schedule_of("pair-discount 50\n",
                    "rank 0 0F0 0F1 0B0 0B1\nrank 1 1F0 (1F1;1B0) 1B1\n");
    assert_int_equal(bound_of(s), 6 * HR_TICKS);
    hr_schedule_destroy(s);
}

static void no_schedule_is_below_its_bound(void **state)
{
    static const hr_stage_cost costs[] = {{.f = HR_TICKS, .i = HR_TICKS, .w = HR_TICKS},
                                          {.f = 7, .i = 11, .w = 3, .recompute = true}};
    const char *name;
    int met = 0;
    for (int i = 0; (name = hr_schedule_name(i)) != NULL; i++)
        for (int k = 0; k < 4 * 8 * 2; k++) {
            hr_schedule *s = NULL;
            hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = 1 + k % 4,
                                  .microbatches = 2 * (1 + k / 4 % 8),
                                  .chunks = k / 32};
            if (hr_schedule_generate(name, &o, &s) < 0)
                continue;
            for (int c = 0; c < 2; c++) {
                assert_int_equal(hr_schedule_set_cost(s, -1, &costs[c]), HR_OK);
                assert_int_equal(hr_schedule_set_comm(s, c, 25 * c), HR_OK);
                hr_figures *f = simulate(s, NULL);
                if (bound_of(s) > f->makespan)
                    fail_msg("%s on %d ranks: bound above makespan", name, o.ranks);
                met += bound_of(s) == f->makespan;
                hr_figures_destroy(f);
            }
            hr_schedule_destroy(s);
        }
    assert_true(met > 100); /* 1F1B and GPipe, whose dearest rank never waits */
}

/* ---- transfers ------------------------------------------------------------------------------- */
static void latency_comes_on_top_of_the_transfer(void **state)
{
    hr_schedule *s =
        schedule_of("latency 0.3\ncomm 0.1\ncost all 1 1.2 0.8\n", one_f_one_b);
    int64_t comm, latency;
    int discount;
    hr_schedule_get_comm(s, &comm, &latency, &discount);
    assert_int_equal(comm, 100000);
    assert_int_equal(latency, 300000);
    assert_int_equal(discount, 0);
    hr_figures *f = simulate(s, NULL);
    assert_int_equal(f->rank[1].first, 1400000);
    assert_int_equal(f->makespan, 9800000); /* twice .3 more than with comm alone */
    hr_figures_destroy(f);
    assert_int_equal(hr_schedule_set_latency(s, -1), HR_ERR_INVALID);
    assert_int_equal(hr_schedule_set_latency(s, 0), HR_OK);
    f = simulate(s, NULL);
    assert_int_equal(f->makespan, 9200000);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

/* Two forwards of one unit each, and transfers of five: the second waits for the first. */
static void transfers_of_one_link_queue_where_asked(void **state)
{
    hr_schedule *s = schedule_of("forward-only\ncomm 5\nlatency 2\n",
                                 "rank 0 0F0 0F1\nrank 1 1F0 1F1\n");
    hr_figures *f = simulate(s, NULL);
    assert_int_equal(f->makespan, 10 * HR_TICKS); /* 2 + 7 + 1 */
    hr_figures_destroy(f);
    f = simulate(s, &(hr_simulate_opts){HR_INIT(hr_simulate_opts), .queue = true});
    assert_int_equal(f->makespan, 14 * HR_TICKS); /* 1 + 2 x 5 + 2 + 1 */
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

/* The transfer of 0F1 is under way from 11 to 21, that of 1B0 from 14 to 24. */
static void the_two_ways_between_ranks_do_not_queue_for_each_other(void **state)
{
    hr_schedule *s = schedule_of("comm 10\n", one_f_one_b);
    hr_figures *f =
        simulate(s, &(hr_simulate_opts){HR_INIT(hr_simulate_opts), .queue = true});
    assert_int_equal(f->makespan, 36 * HR_TICKS);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

/* ---- the critical path ----------------------------------------------------------------------- */
static void the_critical_path_names_what_the_makespan_hangs_on(void **state)
{
    static const struct {
        int rank;
        size_t position;
        int64_t transfer, start;
    } wanted[] = {{0, 0, 0, 0},  {1, 0, 1, 11}, {1, 1, 0, 21},
                  {1, 2, 0, 41}, {1, 3, 0, 51}, {0, 3, 1, 72}};
    hr_schedule *s = schedule_of(skew, one_f_one_b);
    hr_figures *f =
        simulate(s, &(hr_simulate_opts){HR_INIT(hr_simulate_opts), .path = true});
    assert_int_equal(f->path_steps, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(f->path[i].rank, wanted[i].rank);
        assert_int_equal(f->path[i].position, wanted[i].position);
        assert_int_equal(f->path[i].transfer, wanted[i].transfer * 100000);
        assert_int_equal(f->path[i].start, wanted[i].start * 100000);
    }
    assert_int_equal(f->path_transfer, 200000);
    assert_int_equal(f->path_compute, 9000000);
    assert_null(f->rank[0].time); /* were not asked for */
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

/* The transfers of both forwards, one after the other, lie between two slots of the path. */
static void the_critical_path_goes_through_a_queue(void **state)
{
    hr_schedule *s = schedule_of("forward-only\ncomm 5\nlatency 2\n",
                                 "rank 0 0F0 0F1\nrank 1 1F0 1F1\n");
    hr_figures *f = simulate(
        s, &(hr_simulate_opts){HR_INIT(hr_simulate_opts), .queue = true, .path = true});
    assert_int_equal(f->path_steps, 2);
    assert_int_equal(f->path[0].position, 0);
    assert_int_equal(f->path[1].position, 1);
    assert_int_equal(f->path[1].transfer, 12 * HR_TICKS);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

/* Why a path is none, NULL if it is. */
static const char *path_flaw(const hr_schedule *s, const hr_figures *f, bool queue)
{
    int64_t comm, latency, at = 0;
    hr_schedule_get_comm(s, &comm, &latency, NULL);
    if (f->path_compute + f->path_transfer != f->makespan)
        return "its sum is not the makespan";
    for (size_t i = 0; i < f->path_steps; i++) {
        const hr_path_step *p = &f->path[i];
        bool crosses = i > 0 && p->rank != p[-1].rank;
        if (p->start != at + p->transfer)
            return "a step does not start where the one before ends";
        if (p->transfer > 0 && !crosses)
            return "a transfer on one rank";
        if (!queue && crosses && p->transfer != 0 && p->transfer != comm + latency)
            return "a transfer of another length";
        if (p->start != f->rank[p->rank].time[p->position].start)
            return "a step at another time";
        at = p->end;
    }
    return at == f->makespan ? NULL : "it ends elsewhere";
}

static void every_makespan_has_a_critical_path(void **state)
{
    const char *name;
    for (int i = 0; (name = hr_schedule_name(i)) != NULL; i++)
        for (int k = 0; k < 24; k++) {
            hr_schedule *s = NULL, *lowered = NULL;
            hr_stage_cost cost = {.f = 7, .i = 11, .w = 3 + k % 2};
            hr_generate_opts g = {HR_INIT(hr_generate_opts), .ranks = 1 + k % 4,
                                  .microbatches = 2 * (1 + k / 4 % 6), .cost = &cost};
            if (hr_schedule_generate(name, &g, &s) < 0)
                continue;
            assert_int_equal(hr_schedule_set_comm(s, k % 5, 10 * (k % 3)), HR_OK);
            assert_int_equal(hr_schedule_set_latency(s, k % 2), HR_OK);
            assert_int_equal(hr_schedule_lower(s, NULL, &lowered), HR_OK);
            for (int way = 0; way < 6; way++) {
                hr_simulate_opts o = {HR_INIT(hr_simulate_opts),
                                      .times = true,
                                      .path = true,
                                      .queue = way == 1 || way == 4,
                                      .split_pairs = way == 2,
                                      .blocking = way == 5 && g.ranks > 1};
                const hr_schedule *run = way < 3 ? s : lowered;
                hr_figures *f = simulate(run, &o);
                const char *flaw = path_flaw(run, f, o.queue);
                if (flaw != NULL)
                    fail_msg("%s, %d ranks, %d microbatches, way %d: %s", name, g.ranks,
                             g.microbatches, way, flaw);
                hr_figures_destroy(f);
            }
            hr_schedule_destroy(lowered);
            hr_schedule_destroy(s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_exact),
        cmocka_unit_test(recomputing_costs_a_forward_and_holds_the_boundary),
        cmocka_unit_test(peaks_follow_the_order),
        cmocka_unit_test(pairs_may_be_shorter_or_split),
        cmocka_unit_test(blocking_transfers_hold_both_ranks),
        cmocka_unit_test(what_cannot_run_has_no_figures),
        cmocka_unit_test(gaps_are_counted_between_slots),
        cmocka_unit_test(each_action_has_its_time),
        cmocka_unit_test(bounds_are_those_of_the_dearest_rank_or_chain),
        cmocka_unit_test(no_schedule_is_below_its_bound),
        cmocka_unit_test(latency_comes_on_top_of_the_transfer),
        cmocka_unit_test(transfers_of_one_link_queue_where_asked),
        cmocka_unit_test(the_two_ways_between_ranks_do_not_queue_for_each_other),
        cmocka_unit_test(the_critical_path_names_what_the_makespan_hangs_on),
        cmocka_unit_test(the_critical_path_goes_through_a_queue),
        cmocka_unit_test(every_makespan_has_a_critical_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
