/* What the dispatcher issues: the same operations on every rank, what the host waits for, and
 * memory that neither grows nor is handed out too early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"      /* HR_TRY */
#include "moe/moe_route.h" /* source, slot: whose memory is watched */
#include "unit/moe/moe_runs.h"
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { STEPS = 200, WARM = 10 };

static moe_case small(void)
{
    return (moe_case){.ranks = 2,
                      .experts = 4,
                      .top_k = 2,
                      .width = 4,
                      .hidden = 3,
                      .tokens = {6, 5},
                      .choose = choose_spread};
}

static hr_status run_two(hr_rank_fn fn, void *arg)
{
    return hr_local_run(2, &(hr_local_opts){HR_INIT(hr_local_opts), .timeout_s = 60.0},
                        fn, arg);
}

/* ---- logs ------------------------------------------------------------------------------ */
typedef struct op_log {
    int n;
    hr_span span[64];
} op_log;

/* The transfers on the lanes of `rank` with that role, as they ended. */
static void read_log(const hr_timeline *t, int rank, const char *role, op_log *log)
{
    log->n = 0;
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        const hr_lane *lane = hr_timeline_lane_at(t, i);
        size_t n;
        const hr_span *spans = hr_lane_spans(lane, &n);

        if (hr_lane_rank(lane) != rank || strcmp(hr_lane_role(lane), role) != 0)
            continue;
        for (size_t k = 0; k < n && log->n < 64; k++)
            if (spans[k].kind == HR_SPAN_TRANSFER)
                log->span[log->n++] = spans[k];
    }
}

static void expect_equal_logs(const hr_timeline *t, int ranks, const char *role,
                              int expected)
{
    op_log first = {0}, other = {0};

    read_log(t, 0, role, &first);
    assert_int_equal(first.n, expected);
    for (int r = 1; r < ranks; r++) {
        read_log(t, r, role, &other);
        assert_int_equal(other.n, expected);
        for (int i = 0; i < expected; i++) {
            assert_string_equal(first.span[i].name, other.span[i].name);
            assert_int_equal(first.span[i].microbatch, other.span[i].microbatch);
        }
    }
}

static void expect_equal_operations_of(const moe_case *c)
{
    moe_run run = {.c = c, .order = RUN_INTERLEAVED, .two_streams = 1};

    assert_int_equal(hr_timeline_create(4096, &run.timeline), HR_OK);
    assert_int_equal(run_case(&run), HR_OK);
    /* A microbatch: two there, one back; the same again in backward. */
    expect_equal_logs(run.timeline, c->ranks, "communication", 6 * CASE_MICROBATCHES);
    expect_equal_logs(run.timeline, c->ranks, "counts", CASE_MICROBATCHES);
    hr_timeline_destroy(run.timeline);
}

static void expect_equal_operations(const moe_case *c)
{
    moe_case symmetric = *c;

    expect_equal_operations_of(c);
    symmetric.kind = HR_MOE_SYMMETRIC;
    expect_equal_operations_of(&symmetric);
}

static void pain_3_every_rank_issues_the_same_operations(void **state)
{
    moe_case c = small();

    expect_equal_operations(&c);
    c.choose = choose_first_rank; /* nothing for rank 1 */
    expect_equal_operations(&c);
    c.tokens[1] = 0; /* nor from it */
    expect_equal_operations(&c);
    c.tokens[0] = 0;
    expect_equal_operations(&c);
}

/* ---- memory ---------------------------------------------------------------------------- */
typedef struct growth {
    const moe_case *c;
    hr_mem_stats warm[CASE_MAX_RANKS], last[CASE_MAX_RANKS];
    int uneven; /* steps that did not end with the bytes of the first */
} growth;

static hr_status many_steps(moe_rank *r, hr_device *dev, growth *g, int rank)
{
    for (int i = 0; i < STEPS; i++) {
        HR_TRY(run_microbatches(r, RUN_INTERLEAVED, NULL));
        HR_TRY(hr_device_synchronize(dev));
        hr_mem_get_stats(dev, &g->last[rank]);
        if (i == WARM)
            g->warm[rank] = g->last[rank];
        if (i > WARM && g->last[rank].live_bytes != g->warm[rank].live_bytes &&
            rank == 0)
            g->uneven++;
    }
    return HR_OK;
}

static hr_status grow_rank(hr_group *world, void *arg)
{
    growth *g = arg;
    moe_rank r;
    hr_status st = rank_begin(g->c, world, 1, &r);

    if (st >= 0)
        st = many_steps(&r, hr_group_device(world), g, hr_group_rank(world));
    rank_end(&r);
    return st;
}

static void expect_no_growth(hr_moe_kind kind)
{
    moe_case c = small();
    growth g = {.c = &c};

    c.kind = kind;

    assert_int_equal(run_two(grow_rank, &g), HR_OK);
    assert_int_equal(g.uneven, 0);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(g.last[r].live_bytes, g.warm[r].live_bytes);
        assert_int_equal(g.last[r].peak_bytes, g.warm[r].peak_bytes);
        assert_int_equal(g.last[r].reserved_bytes, g.warm[r].reserved_bytes);
    }
}

static void memory_does_not_grow_with_steps(void **state)
{
    expect_no_growth(HR_MOE_ALLTOALL);
    expect_no_growth(HR_MOE_SYMMETRIC);
}

enum { BLOCKS = 100 };
typedef struct reuse {
    moe_case c;
    int early[CASE_MAX_RANKS], late[CASE_MAX_RANKS];
} reuse;

/* Takes blocks for the compute stream: how many of the two addresses are among them? */
static hr_status take_blocks(moe_rank *r, size_t bytes, const void *const *address,
                             void **block, int *found)
{
    for (int i = 0; i < BLOCKS; i++) {
        HR_TRY(hr_mem_alloc(r->compute, bytes, &block[i]));
        *found += block[i] == address[0] || block[i] == address[1];
    }
    return HR_OK;
}

static hr_status release_route(moe_rank *r, moe_flow *f, reuse *u, int rank)
{
    void *block[2 * BLOCKS] = {NULL};

    for (int slot = SLOT_PRE; slot < SLOTS; slot++)
        HR_TRY(flow_forward(f, slot));
    const size_t bytes = hr_tensor_bytes(f->route->source);
    const void *const maps[2] = {hr_tensor_data(f->route->source),
                                 hr_tensor_data(f->route->slot)};
    hr_route_release(f->route);
    f->route = NULL;
    hr_status st = take_blocks(r, bytes, maps, block, &u->early[rank]);
    if (st >= 0)
        st = hr_event_wait(f->done, r->compute);
    if (st >= 0)
        st = take_blocks(r, bytes, maps, block + BLOCKS, &u->late[rank]);
    for (int i = 0; i < 2 * BLOCKS; i++)
        hr_mem_free(block[i], r->compute);
    return st;
}

static hr_status reuse_rank(hr_group *world, void *arg)
{
    reuse *u = arg;
    moe_flow f = {0};
    moe_rank r;
    bool mode = hr_grad_mode_set(false); /* so that no graph holds the route */
    hr_status st = rank_begin(&u->c, world, 1, &r);

    if (st >= 0)
        st = flow_begin(&r, 0, &f);
    if (st >= 0)
        st = release_route(&r, &f, u, hr_group_rank(world));
    flow_end(&f);
    rank_end(&r);
    hr_grad_mode_set(mode);
    return st;
}

static void maps_are_free_only_after_combine_on_its_stream(void **state)
{
    reuse u = {.c = small()};

    assert_int_equal(run_two(reuse_rank, &u), HR_OK);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(u.early[r], 0);
        assert_int_equal(u.late[r], 2);
    }
}

/* ---- what the host waits for --------------------------------------------------------------- */
static hr_status wait_at_gate(const void *args, hr_team *team)
{
    atomic_int *open = *(atomic_int *const *)args;
    const int64_t limit = hr_now_ns() + 20 * (int64_t)1000000000;

    while (!atomic_load(open)) {
        if (hr_now_ns() > limit)
            return hr_fail(HR_ERR_TIMEOUT, "gate", "test: the gate was never opened");
        sched_yield();
    }
    return HR_OK;
}

static hr_status dispatch_behind_gates(moe_rank *r, moe_flow *f, atomic_int *open)
{
    HR_TRY(hr_launch(r->comm, "gate", wait_at_gate, &open, sizeof open, NULL, 0));
    HR_TRY(flow_forward(f, SLOT_PRE));
    HR_TRY(hr_launch(r->compute, "gate", wait_at_gate, &open, sizeof open, NULL, 0));
    return flow_forward(f, SLOT_DISPATCH);
}

/* With nothing moving, counts included, everything can be issued. */
static hr_status issue_all_behind_gates(moe_rank *r, moe_flow *f, atomic_int *open)
{
    hr_stream *all[] = {r->compute, r->comm, r->counts_stream};

    for (int i = 0; i < 3; i++)
        HR_TRY(hr_launch(all[i], "gate", wait_at_gate, &open, sizeof open, NULL, 0));
    for (int slot = SLOT_PRE; slot < SLOTS; slot++)
        HR_TRY(flow_forward(f, slot));
    for (int slot = SLOT_COMBINE; slot >= SLOT_PRE; slot--)
        HR_TRY(flow_backward(f, slot));
    return HR_OK;
}

static hr_status gated_rank(hr_group *world, void *arg)
{
    atomic_int open = 0;
    moe_flow f = {0};
    moe_rank r;
    hr_status st = rank_begin(arg, world, 1, &r);

    if (st >= 0)
        st = flow_begin(&r, 0, &f);
    if (st >= 0)
        st = r.c->kind == HR_MOE_SYMMETRIC ? issue_all_behind_gates(&r, &f, &open)
                                           : dispatch_behind_gates(&r, &f, &open);
    atomic_store(&open, 1);
    hr_status end = hr_device_synchronize(hr_group_device(world));
    flow_end(&f);
    rank_end(&r);
    return st < 0 ? st : end;
}

static void expect_through_gates(hr_moe_kind kind)
{
    moe_case c = small();

    c.kind = kind;
    hr_status st = run_two(gated_rank, &c);

    if (st < 0)
        print_error("%s\n", hr_last_error());
    assert_int_equal(st, HR_OK);
}

static void dispatch_waits_for_the_counts_alone(void **state)
{
    expect_through_gates(HR_MOE_ALLTOALL);
}

static void the_symmetric_kind_waits_nowhere(void **state)
{
    expect_through_gates(HR_MOE_SYMMETRIC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pain_3_every_rank_issues_the_same_operations),
        cmocka_unit_test(dispatch_waits_for_the_counts_alone),
        cmocka_unit_test(the_symmetric_kind_waits_nowhere),
        cmocka_unit_test(memory_does_not_grow_with_steps),
        cmocka_unit_test(maps_are_free_only_after_combine_on_its_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
