/* linear and grouped_linear against plain loops. */
#include "op_check.h"
#include "reference.h"

struct linear_shape {
    int64_t n, in, out;
};

static hr_status run_linear(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                            hr_tensor **out)
{
    return hr_op_linear(in[0], in[1], queue, out);
}

static double plain_linear(const void *ctx, double *const *in, double *out)
{
    const struct linear_shape *s = ctx;
    ref_linear(in[0], in[1], s->n, s->in, s->out, out);
    return 0;
}

static void check_linear(int64_t n, int64_t in, int64_t out, bool frozen_x,
                         bool frozen_w)
{
    struct linear_shape s = {n, in, out};
    op_check_run(
        &(op_check){.ctx = &s,
                    .run = run_linear,
                    .reference = plain_linear,
                    .in = {{.ndim = 2, .shape = {n, in}, .constant = frozen_x},
                           {.ndim = 2, .shape = {out, in}, .constant = frozen_w}},
                    .queued = true});
}

static void linear_matches_plain_loops_at_any_shape(void **state)
{
    check_linear(1, 1, 1, false, false);
    check_linear(7, 5, 3, false, false);
    check_linear(33, 17, 65, false, false);
    check_linear(0, 5, 3, false, false);
}

static void linear_over_several_tiles_is_the_same_on_any_team(void **state)
{
    check_linear(300, 40, 600, false, false);
}

static void linear_leaves_out_what_needs_no_gradient(void **state)
{
    check_linear(7, 5, 3, true, false);
    check_linear(7, 5, 3, false, true);
}

struct grouped_shape {
    int64_t experts, in, out;
    const int64_t *offsets;
};

static hr_status run_grouped(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                             hr_tensor **out)
{
    const struct grouped_shape *s = ctx;
    int64_t mine[32];
    for (int64_t l = 0; l <= s->experts; l++)
        mine[l] = s->offsets[l];
    hr_status st = hr_op_grouped_linear(in[0], in[1], mine, queue, out);
    for (int64_t l = 0; l <= s->experts; l++)
        mine[l] = -1; /* it was copied */
    return st;
}

static double plain_grouped(const void *ctx, double *const *in, double *out)
{
    const struct grouped_shape *s = ctx;
    for (int64_t l = 0; l < s->experts; l++) {
        int64_t from = s->offsets[l];
        ref_linear(in[0] + from * s->in, in[1] + l * s->out * s->in,
                   s->offsets[l + 1] - from, s->in, s->out, out + from * s->out);
    }
    return 0;
}

static void check_grouped(int64_t experts, int64_t in, int64_t out,
                          const int64_t *offsets)
{
    struct grouped_shape s = {experts, in, out, offsets};
    op_check_run(&(op_check){.ctx = &s,
                             .run = run_grouped,
                             .reference = plain_grouped,
                             .in = {{.ndim = 2, .shape = {offsets[experts], in}},
                                    {.ndim = 3, .shape = {experts, out, in}}},
                             .queued = true});
}

static void grouped_linear_meets_each_expert_with_its_rows(void **state)
{
    check_grouped(3, 5, 4, (int64_t[]){0, 2, 7, 10});
    check_grouped(1, 5, 4, (int64_t[]){0, 3});
}

static void grouped_linear_takes_experts_without_rows(void **state)
{
    check_grouped(4, 5, 3, (int64_t[]){0, 0, 6, 6, 6});
    check_grouped(2, 5, 3, (int64_t[]){0, 0, 0});
}

static void grouped_linear_takes_more_experts_than_a_launch_carries(void **state)
{
    int64_t offsets[31];
    for (int64_t l = 0; l <= 30; l++)
        offsets[l] = l * 2 - l / 3;
    check_grouped(30, 3, 4, offsets);
}

static void grouped_linear_over_several_tiles_is_the_same_on_any_team(void **state)
{
    check_grouped(3, 20, 30, (int64_t[]){0, 270, 280, 600});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_matches_plain_loops_at_any_shape),
        cmocka_unit_test(linear_over_several_tiles_is_the_same_on_any_team),
        cmocka_unit_test(linear_leaves_out_what_needs_no_gradient),
        cmocka_unit_test(grouped_linear_meets_each_expert_with_its_rows),
        cmocka_unit_test(grouped_linear_takes_experts_without_rows),
        cmocka_unit_test(grouped_linear_takes_more_experts_than_a_launch_carries),
        cmocka_unit_test(grouped_linear_over_several_tiles_is_the_same_on_any_team),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
