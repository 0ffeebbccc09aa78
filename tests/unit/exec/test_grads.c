/* Gradients over ranks: each parameter is summed over its copies, then over data-parallel ranks, and
 * counts once in the norm. Integers and halves, so that every sum is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "support/holds.h"
#include "unit/exec/grads_rig.h"

enum { ROOM = GRADS_ROOM };

/* ---- user-pains 9 ----------------------------------------------------------------------------
 * Two pipelines of `stages` ranks; one weight on the given holders, with gradients 1, 2, 4, 8, ... halved
 * for the mean over two pipelines. */
static hr_status tied(hr_group *world, int stages, float want)
{
    int me = hr_group_rank(world), pipe = me % 2, stage = me / 2;
    hr_group *holders = NULL, *dp = NULL;
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    for (int d = 0; d < 2; d++) {
        int ranks[3] = {d, 2 + d, 4 + d};
        HR_TRY(grads_rig_group(world, ranks, stages, &holders));
    }
    for (int s = 0; s < stages; s++)
        HR_TRY(grads_rig_group(world, (int[]){2 * s, 2 * s + 1}, 2, &dp));
    float *at = hr_tensor_f32(r.grad), got[ROOM];
    hr_grad_desc d = {.grad = at, .count = 1, .copies = holders, .over = dp};
    HR_TRY(grads_rig_make(&r, &d, 1, 1));
    float mine = 0.5f * (float)(1 << (2 * stage + pipe));
    HR_TRY(grads_rig_put(r.grad, &mine, 1));
    hr_grads_begin(r.g);
    HR_TRY(hr_grads_reduce(r.g, 0)); /* too early for a weight with other holders */
    HR_TRY(hr_grads_finish(r.g));
    HR_TRY(hr_tensor_read(r.grad, got, sizeof got));
    HOLDS(got[0] == want);
    HR_TRY(grads_rig_close(&r));
    hr_group_release(holders);
    hr_group_release(dp);
    return HR_OK;
}

static hr_status two_holders(hr_group *world, void *arg)
{
    return tied(world, 2, 7.5f);
}

static hr_status three_holders(hr_group *world, void *arg)
{
    return tied(world, 3, 31.5f);
}

static void pain_9_tied_weights_are_summed_over_all_holders(void **state)
{
    grads_rig_run(4, NULL, two_holders, NULL);
    grads_rig_run(6, NULL, three_holders, NULL);
}

/* ---- stages and buckets ---------------------------------------------------------------------- */
/* Parameters 0 and 2 of stage 0 side by side, 1 elsewhere, 3 of stage 1. */
static hr_status list_of_four(hr_group *world, hr_grad_desc d[4], float *at)
{
    int place[] = {0, 20, 4, 8}, count[] = {4, 2, 4, 3}, stage[] = {0, 0, 0, 1};
    for (int i = 0; i < 4; i++)
        d[i] = (hr_grad_desc){.grad = at + place[i],
                              .count = count[i],
                              .stage = stage[i],
                              .id = i,
                              .over = world};
    return HR_OK;
}

static hr_status stage_by_stage(hr_group *world, void *arg)
{
    hr_grad_desc d[4];
    float ones[ROOM], got[ROOM];
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    HR_TRY(list_of_four(world, d, hr_tensor_f32(r.grad)));
    HR_TRY(grads_rig_make(&r, d, 4, 4));
    for (int i = 0; i < ROOM; i++)
        ones[i] = (float)(1 + hr_group_rank(world));
    for (int step = 0; step < 2; step++) {
        HR_TRY(grads_rig_put(r.grad, ones, ROOM));
        hr_grads_begin(r.g);
        HR_TRY(hr_grads_reduce(r.g, 1));
        HR_TRY(hr_stream_synchronize(r.stream));
        HR_TRY(hr_tensor_read(r.grad, got, sizeof got));
        HOLDS(got[8] == 3 && got[10] == 3 && got[0] == ones[0] && got[20] == ones[0]);
        HR_TRY(hr_grads_finish(r.g));
        HR_TRY(hr_tensor_read(r.grad, got, sizeof got));
        for (int i = 0; i < 11; i++)
            HOLDS(got[i] == 3);
        HOLDS(got[11] == ones[0] && got[20] == 3 && got[21] == 3 && got[22] == ones[0]);
    }
    return grads_rig_close(&r);
}

static void a_stage_is_reduced_alone_and_the_rest_at_the_end(void **state)
{
    grads_rig_run(2, NULL, stage_by_stage, NULL);
}

static hr_status twice(hr_group *world, void *arg)
{
    hr_grad_desc d[4];
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    HR_TRY(list_of_four(world, d, hr_tensor_f32(r.grad)));
    HR_TRY(grads_rig_make(&r, d, 4, 4));
    hr_grads_begin(r.g);
    HR_TRY(hr_grads_reduce(r.g, 1));
    HOLDS(hr_grads_reduce(r.g, 1) == HR_ERR_STATE);
    HOLDS(strcmp(hr_last_reason(), "grads_twice") == 0);
    HR_TRY(hr_grads_finish(r.g));
    HOLDS(hr_grads_reduce(r.g, 0) == HR_ERR_STATE);
    HOLDS(hr_grads_finish(r.g) == HR_ERR_STATE);
    return grads_rig_close(&r);
}

static void a_gradient_is_never_reduced_twice_in_a_step(void **state)
{
    grads_rig_run(2, NULL, twice, NULL);
}

/* ---- the norm --------------------------------------------------------------------------------- */
enum { PARAMETERS = 8 };

/* The square of parameter `id`: such that another order of addition gives other bits. */
static double square_of(int id)
{
    return 1e3 / (3 + id * id * id);
}

/* Of ids from `first` on in steps of `step`. */
static double norm_in_order(int first, int step)
{
    double sum = 0;
    for (int k = 0; k < PARAMETERS; k++)
        sum += square_of(first + step * k);
    return sqrt(sum);
}

/* Rank r of `n` holds the ids of its turn; the last parameter is held by all, as copies. */
static hr_status spread(hr_group *world, void *arg)
{
    int me = hr_group_rank(world), n = hr_group_size(world), k = 0;
    hr_grad_desc d[PARAMETERS];
    double squares[ROOM] = {0}, norm;
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    for (int id = 0; id < PARAMETERS; id++) {
        bool all = id == PARAMETERS - 1;
        if (id % n != me && !all)
            continue;
        squares[k] = square_of(id);
        d[k++] = (hr_grad_desc){.grad = hr_tensor_f32(r.grad) + id,
                                .count = 1,
                                .id = id,
                                .copies = all ? world : NULL};
    }
    HR_TRY(grads_rig_make(&r, d, k, PARAMETERS));
    HR_TRY(hr_tensor_write(r.squares, squares, sizeof squares));
    HR_TRY(hr_grads_norm(r.g, hr_tensor_data(r.squares), &norm));
    double want = norm_in_order(0, 1);
    HOLDS(want != norm_in_order(PARAMETERS - 1, -1));
    HOLDS(memcmp(&norm, &want, sizeof norm) == 0);
    return grads_rig_close(&r);
}

static void the_norm_has_the_same_bits_for_every_spread(void **state)
{
    for (int ranks = 1; ranks <= 4; ranks++)
        grads_rig_run(ranks, NULL, spread, NULL);
}

static hr_status not_finite(hr_group *world, void *arg)
{
    int me = hr_group_rank(world);
    double norm, squares[ROOM] = {me ? NAN : 1.0};
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    hr_grad_desc d = {.grad = hr_tensor_f32(r.grad), .count = 1, .id = me};
    HR_TRY(grads_rig_make(&r, &d, 1, 2));
    HR_TRY(hr_tensor_write(r.squares, squares, sizeof squares));
    HR_TRY(hr_grads_norm(r.g, hr_tensor_data(r.squares), &norm));
    HOLDS(isnan(norm));
    return grads_rig_close(&r);
}

static void a_norm_that_is_not_finite_is_seen_by_all_ranks(void **state)
{
    grads_rig_run(2, NULL, not_finite, NULL);
}

static hr_status no_parameters(hr_group *world, void *arg)
{
    double norm = 1;
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    HR_TRY(grads_rig_make(&r, NULL, 0, 0));
    hr_grads_begin(r.g);
    HR_TRY(hr_grads_finish(r.g));
    HR_TRY(hr_grads_norm(r.g, NULL, &norm));
    HOLDS(norm == 0);
    return grads_rig_close(&r);
}

static void of_no_parameters_the_norm_is_zero(void **state)
{
    grads_rig_run(2, NULL, no_parameters, NULL);
}

/* ---- what is refused ---------------------------------------------------------------------------- */
static hr_status unnamed_holder(hr_group *world, void *arg)
{
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    hr_grad_desc d = {.grad = hr_tensor_f32(r.grad), .count = 1};
    HOLDS(grads_rig_make(&r, &d, 1, 1) == HR_ERR_MISMATCH && r.g == NULL);
    HOLDS(strcmp(hr_last_reason(), "grads_ids") == 0);
    HOLDS(strstr(hr_last_error(), "parameter 0 of 1 is counted 2 times"));
    HOLDS(grads_rig_make(&r, &d, 0, 1) == HR_ERR_MISMATCH);
    HOLDS(strstr(hr_last_error(), "counted 0 times"));
    return grads_rig_close(&r);
}

static void holders_that_do_not_name_each_other_are_refused(void **state)
{
    grads_rig_run(2, NULL, unnamed_holder, NULL);
}

static hr_status bad_entries(hr_group *world, void *arg)
{
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    float *at = hr_tensor_f32(r.grad);
    const hr_grad_desc bad[] = {{.grad = at, .count = 1, .id = 1},
                                {.grad = at, .count = 1, .id = -1},
                                {.grad = at, .count = -1},
                                {.grad = at, .count = 1, .stage = -1},
                                {.count = 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        HOLDS(grads_rig_make(&r, &bad[i], 1, 1) == HR_ERR_INVALID && r.g == NULL);
    return grads_rig_close(&r);
}

static void entries_that_cannot_be_are_refused(void **state)
{
    grads_rig_run(1, NULL, bad_entries, NULL);
}

static hr_status bad_elsewhere(hr_group *world, void *arg)
{
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    hr_grad_desc d = {.grad = hr_tensor_f32(r.grad), .count = 1};
    d.id = hr_group_rank(world) == 1 ? 7 : 0;
    HOLDS(grads_rig_make(&r, &d, 1, 2) == HR_ERR_INVALID && r.g == NULL);
    HOLDS(strcmp(hr_last_reason(), "grads_entry") == 0);
    HOLDS(strstr(hr_last_error(), d.id ? "id 7 of 2" : "1 of the other ranks"));
    d.id = hr_group_rank(world);
    HR_TRY(grads_rig_make(&r, &d, 1, 2)); /* nothing of it is left */
    return grads_rig_close(&r);
}

static void an_entry_refused_on_one_rank_is_refused_on_all(void **state)
{
    grads_rig_run(2, NULL, bad_elsewhere, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pain_9_tied_weights_are_summed_over_all_holders),
        cmocka_unit_test(a_stage_is_reduced_alone_and_the_rest_at_the_end),
        cmocka_unit_test(a_gradient_is_never_reduced_twice_in_a_step),
        cmocka_unit_test(the_norm_has_the_same_bits_for_every_spread),
        cmocka_unit_test(a_norm_that_is_not_finite_is_seen_by_all_ranks),
        cmocka_unit_test(of_no_parameters_the_norm_is_zero),
        cmocka_unit_test(holders_that_do_not_name_each_other_are_refused),
        cmocka_unit_test(entries_that_cannot_be_are_refused),
        cmocka_unit_test(an_entry_refused_on_one_rank_is_refused_on_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
