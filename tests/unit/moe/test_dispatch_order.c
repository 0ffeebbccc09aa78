/* What the dispatcher issues: the same operations on every rank, and memory that does not grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h" /* HR_TRY */
#include "unit/moe/moe_runs.h"
#include <string.h>

enum { STEPS = 200, WARM = 10 };

/* ---- logs ------------------------------------------------------------------------------ */
typedef struct op_log {
    int n;
    const hr_span *span[64];
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
                log->span[log->n++] = &spans[k];
    }
}

static void expect_equal_logs(const hr_timeline *t, int ranks, const char *role,
                              int expected)
{
    op_log first, other;

    read_log(t, 0, role, &first);
    assert_int_equal(first.n, expected);
    for (int r = 1; r < ranks; r++) {
        read_log(t, r, role, &other);
        assert_int_equal(other.n, expected);
        for (int i = 0; i < expected; i++) {
            assert_string_equal(first.span[i]->name, other.span[i]->name);
            assert_int_equal(first.span[i]->microbatch, other.span[i]->microbatch);
        }
    }
}

static void expect_equal_operations(const moe_case *c)
{
    moe_run run = {.c = c, .order = RUN_INTERLEAVED, .two_streams = 1};

    assert_int_equal(hr_timeline_create(4096, &run.timeline), HR_OK);
    assert_int_equal(run_case(&run), HR_OK);
    /* A microbatch: two there, one back; the same again in backward. */
    expect_equal_logs(run.timeline, c->ranks, "communication", 6 * CASE_MICROBATCHES);
    expect_equal_logs(run.timeline, c->ranks, "counts", CASE_MICROBATCHES);
    hr_timeline_destroy(run.timeline);
}

static void every_rank_issues_the_same_operations(void **state)
{
    moe_case c = {.ranks = 2,
                  .experts = 4,
                  .top_k = 2,
                  .width = 4,
                  .hidden = 3,
                  .tokens = {6, 5},
                  .choose = choose_spread};

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

static void memory_does_not_grow_with_steps(void **state)
{
    const moe_case c = {.ranks = 2,
                        .experts = 4,
                        .top_k = 2,
                        .width = 4,
                        .hidden = 3,
                        .tokens = {6, 5},
                        .choose = choose_spread};
    growth g = {.c = &c};

    assert_int_equal(
        hr_local_run(2, &(hr_local_opts){HR_INIT(hr_local_opts), .timeout_s = 60.0},
                     grow_rank, &g),
        HR_OK);
    assert_int_equal(g.uneven, 0);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(g.last[r].live_bytes, g.warm[r].live_bytes);
        assert_int_equal(g.last[r].peak_bytes, g.warm[r].peak_bytes);
        assert_int_equal(g.last[r].reserved_bytes, g.warm[r].reserved_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_issues_the_same_operations),
        cmocka_unit_test(memory_does_not_grow_with_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
