/* What the dispatcher refuses, and what becomes of a rank whose peer fails or stays away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h" /* HR_TRY */
#include "unit/moe/moe_runs.h"
#include <string.h>

static const moe_case small = {.ranks = 2,
                               .experts = 4,
                               .top_k = 2,
                               .width = 4,
                               .hidden = 3,
                               .tokens = {3, 2},
                               .choose = choose_spread};

static hr_status run_two(double timeout_s, hr_rank_fn fn, void *arg)
{
    return hr_local_run(
        2, &(hr_local_opts){HR_INIT(hr_local_opts), .timeout_s = timeout_s}, fn, arg);
}

/* ---- refusals: each rank notes what it was told, rank 0's notes are compared ------------- */
typedef struct refusal {
    hr_status st;
    char reason[32], text[200];
} refusal;
typedef struct refusals {
    int n;
    refusal r[16];
} refusals;

static void note(refusals *all, hr_status st)
{
    refusal *r = &all->r[all->n++];

    r->st = st;
    strncpy(r->reason, st < 0 ? hr_last_reason() : "", sizeof r->reason - 1);
    strncpy(r->text, st < 0 ? hr_last_error() : "", sizeof r->text - 1);
}

static void expect_refused(const refusals *all, int i, hr_status st, const char *reason)
{
    assert_int_equal(all->r[i].st, st);
    assert_string_equal(all->r[i].reason, reason);
}

static hr_status create_wrongly(hr_group *world, void *arg)
{
    refusals unused = {0}, *all = hr_group_rank(world) == 0 ? arg : &unused;
    hr_dispatcher *d;
    moe_rank r;
    hr_status st = rank_begin(&small, world, 0, &r);

    if (st >= 0) {
        hr_dispatcher_opts o = {HR_INIT(hr_dispatcher_opts),
                                .experts = 5,
                                .top_k = 2,
                                .tokens = r.tokens,
                                .counts = r.counts,
                                .counts_stream = r.counts_stream};
        note(all, hr_dispatcher_create(&o, &d));
        o.experts = 0;
        note(all, hr_dispatcher_create(&o, &d));
        o.experts = 4;
        o.top_k = 5;
        note(all, hr_dispatcher_create(&o, &d));
        o.top_k = 0;
        note(all, hr_dispatcher_create(&o, &d));
        o.top_k = 2;
        o.counts = o.tokens;
        note(all, hr_dispatcher_create(&o, &d));
        o.counts = NULL;
        note(all, hr_dispatcher_create(&o, &d));
        o.size = 1;
        note(all, hr_dispatcher_create(&o, &d));
    }
    rank_end(&r);
    return st;
}

static void options_that_cannot_work_are_refused_by_name(void **state)
{
    refusals all = {0};

    assert_int_equal(run_two(60.0, create_wrongly, &all), HR_OK);
    assert_int_equal(all.n, 7);
    expect_refused(&all, 0, HR_ERR_INVALID, "experts_split");
    assert_non_null(strstr(all.r[0].text, "5 experts"));
    assert_non_null(strstr(all.r[0].text, "2 ranks"));
    assert_non_null(strstr(all.r[0].text, "the next is 6"));
    expect_refused(&all, 1, HR_ERR_INVALID, "experts_split");
    expect_refused(&all, 2, HR_ERR_INVALID, "top_k");
    expect_refused(&all, 3, HR_ERR_INVALID, "top_k");
    expect_refused(&all, 4, HR_ERR_INVALID, "counts_group");
    expect_refused(&all, 5, HR_ERR_INVALID, "null");
    expect_refused(&all, 6, HR_ERR_INVALID, "opts_size");
}

/* Each call with what does not fit, then the right one. */
static hr_status call_wrongly(moe_rank *r, moe_flow *f, refusals *all)
{
    hr_tensor *x = f->in[0][0], *probs = f->in[0][1], *a = NULL, *b = NULL;
    hr_route *route = NULL;

    note(all, hr_moe_preprocess(r->dispatcher, x, x, f->index, &route, &a, &b));
    note(all,
         hr_moe_preprocess(r->dispatcher, f->index, probs, f->index, &route, &a, &b));
    note(all, hr_moe_preprocess(r->dispatcher, NULL, probs, f->index, &route, &a, &b));
    HR_TRY(flow_forward(f, SLOT_PRE));
    note(all, hr_moe_sort(f->route, x, probs, &a, &b));
    note(all, hr_moe_unsort(f->route, x, &a));
    note(all, hr_moe_combine(f->route, x, &a));
    note(all, hr_moe_offsets(f->route) == NULL ? HR_OK : HR_ERR_STATE);
    note(all, hr_moe_dispatch(f->route, x, f->out[0][1], &a, &b));
    HR_TRY(flow_forward(f, SLOT_DISPATCH));
    note(all, hr_moe_sort(f->route, f->grad, f->out[1][1], &a, &b));
    if (a != NULL || b != NULL || route != NULL)
        return hr_fail(HR_ERR_STATE, NULL, "test: a refused call left an object");
    HR_TRY(flow_forward(f, SLOT_MLP));
    return flow_forward(f, SLOT_COMBINE);
}

static hr_status misuse_rank(hr_group *world, void *arg)
{
    refusals unused = {0}, *all = hr_group_rank(world) == 0 ? arg : &unused;
    moe_flow f = {0};
    moe_rank r;
    hr_status st = rank_begin(&small, world, 0, &r);

    if (st >= 0)
        st = flow_begin(&r, 0, &f);
    if (st >= 0)
        st = call_wrongly(&r, &f, all);
    flow_end(&f);
    rank_end(&r);
    return st;
}

static void calls_that_do_not_fit_are_refused_and_harm_nothing(void **state)
{
    refusals all = {0};

    assert_int_equal(run_two(60.0, misuse_rank, &all), HR_OK);
    assert_int_equal(all.n, 9);
    expect_refused(&all, 0, HR_ERR_INVALID, "shape");
    expect_refused(&all, 1, HR_ERR_INVALID, "shape");
    expect_refused(&all, 2, HR_ERR_INVALID, "null");
    expect_refused(&all, 3, HR_ERR_STATE, "route_unknown");
    expect_refused(&all, 4, HR_ERR_STATE, "route_unknown");
    expect_refused(&all, 5, HR_ERR_STATE, "route_unknown");
    expect_refused(&all, 6, HR_OK, "");
    expect_refused(&all, 7, HR_ERR_INVALID, "shape");
    expect_refused(&all, 8, HR_ERR_INVALID, "shape");
}

/* ---- a peer that does not come ------------------------------------------------------------ */
enum way_out { FAILS, RETURNS, STRAYS };
typedef struct absence {
    moe_case c;
    int slot;         /* before which rank 1 takes its way out */
    enum way_out way; /* with an error; as if it were done; into another operation */
    hr_status seen;   /* by rank 0 */
} absence;

static hr_status forward_until(moe_flow *f, int end)
{
    for (int slot = SLOT_PRE; slot < end; slot++)
        HR_TRY(flow_forward(f, slot));
    return hr_device_synchronize(hr_group_device(f->rank->world));
}

static hr_status leave(const absence *a, moe_rank *r)
{
    switch (a->way) {
    case FAILS:
        return hr_fail(HR_ERR_CALLBACK, "made_up", "leaves before slot %d", a->slot);
    case RETURNS:
        return HR_OK;
    default:
        HR_TRY(hr_barrier(r->world, r->compute));
        return hr_stream_synchronize(r->compute);
    }
}

static hr_status leaving_rank(hr_group *world, void *arg)
{
    absence *a = arg;
    moe_flow f = {0};
    moe_rank r;
    hr_status st = rank_begin(&a->c, world, 1, &r);

    if (st >= 0)
        st = flow_begin(&r, 0, &f);
    if (hr_group_rank(world) == 0) {
        if (st >= 0)
            st = forward_until(&f, SLOTS);
        a->seen = st;
    } else if (st >= 0) {
        st = forward_until(&f, a->slot);
        if (st >= 0)
            st = leave(a, &r);
    }
    flow_end(&f);
    rank_end(&r);
    return st;
}

/* For either kind. */
static void expect_woken(enum way_out way, double timeout_s, hr_status expected,
                         const char *says)
{
    static const int slots[] = {SLOT_PRE, SLOT_DISPATCH, SLOT_COMBINE};

    for (int i = 0; i < 6; i++) {
        absence a = {.c = small, .slot = slots[i % 3], .way = way, .seen = HR_OK};

        a.c.kind = i < 3 ? HR_MOE_ALLTOALL : HR_MOE_SYMMETRIC;

        assert_int_equal(run_two(timeout_s, leaving_rank, &a), expected);
        assert_int_equal(a.seen, expected);
        assert_non_null(strstr(hr_last_error(), says));
    }
}

static void a_failing_peer_wakes_those_who_wait_for_it(void **state)
{
    expect_woken(FAILS, 60.0, HR_ERR_CALLBACK, "rank 1: leaves before slot");
}

static void a_peer_that_returned_is_not_waited_for(void **state)
{
    expect_woken(RETURNS, 60.0, HR_ERR_ABORTED, "rank 1 has returned");
}

static void a_peer_that_strays_ends_the_wait_at_the_time_limit(void **state)
{
    expect_woken(STRAYS, 0.3, HR_ERR_TIMEOUT, "missing: ");
}

/* Wherever the memory ends, the job ends with that cause, and nothing is left behind. */
static void expect_clean_end_without_memory(hr_moe_kind kind)
{
    const size_t step = 192, limit = 256 * step;
    moe_case c = small;
    int failed = 0;
    hr_status st = HR_ERR_NOMEM;

    c.kind = kind;
    for (size_t bytes = step; st < 0 && bytes < limit; bytes += step) {
        moe_run run = {
            .c = &c, .order = RUN_INTERLEAVED, .two_streams = 1, .memory = bytes};
        st = run_case(&run);
        if (st < 0) {
            assert_int_equal(st, HR_ERR_NOMEM);
            failed++;
        }
    }
    assert_int_equal(st, HR_OK);
    assert_true(failed > 10);
}

static void running_out_of_memory_ends_the_job_cleanly(void **state)
{
    expect_clean_end_without_memory(HR_MOE_ALLTOALL);
    expect_clean_end_without_memory(HR_MOE_SYMMETRIC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_cannot_work_are_refused_by_name),
        cmocka_unit_test(calls_that_do_not_fit_are_refused_and_harm_nothing),
        cmocka_unit_test(a_failing_peer_wakes_those_who_wait_for_it),
        cmocka_unit_test(a_peer_that_returned_is_not_waited_for),
        cmocka_unit_test(a_peer_that_strays_ends_the_wait_at_the_time_limit),
        cmocka_unit_test(running_out_of_memory_ends_the_job_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
