/* A forward of three layers beside a backward of three, two, one and no layers, over two ranks with a real
 * all-to-all, whose kernels take longer at random and differently on each rank: the order of
 * collectives comes from the plans alone, and nothing changes a bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/try.h"
#include "toy_model.h"

enum { RANKS = 2, DEPTHS = TOY_LAYERS + 1, BYTES = TOY_ROWS * TOY_WIDTH };

/* What one pair leaves: the output and input gradient of either chunk, and all weight gradients. */
typedef struct result {
    float f_out[BYTES], f_dx[BYTES], b_out[BYTES], b_dx[BYTES];
    float grad[TOY_WEIGHTS * TOY_WIDTH];
} result;

typedef struct seen {
    result overlapped, serial;
    toy_watch log; /* of the overlapped run */
} seen;

static seen got[RANKS][DEPTHS]; /* by layers of the backward */

typedef struct side {
    hr_chunk_desc chunk;
    hr_schedule_plan *plan;
    hr_tensor *x, *y;
} side;

static hr_status build(toy_model *m, int layers, int mb, bool serial, side *s)
{
    hr_build_plan_opts opts = {HR_INIT(hr_build_plan_opts), .microbatch = mb,
                               .delay_wgrad = true, .serial = serial};
    *s = (side){.chunk = m->chunk};
    s->chunk.n_layers = layers;
    HR_TRY(toy_input(m, mb, &s->x));
    return hr_build_schedule_plan(&s->chunk, &s->x, 1, &opts, &s->plan);
}

static void drop(side *s)
{
    hr_schedule_plan_destroy(s->plan);
    hr_tensor_release(s->x);
    hr_tensor_release(s->y);
}

/* The gradient of an output is the output: its loss is half the sum of squares. */
static hr_status run(side *f, side *b)
{
    hr_tensor *out, *g = b ? b->y : NULL;
    HR_TRY(hr_schedule_plan_run(f ? f->plan : NULL, b ? b->plan : NULL, g, NULL, &out));
    if (f)
        f->y = out;
    return HR_OK;
}

static hr_status read_side(const side *s, float *out, float *dx)
{
    HR_TRY(hr_tensor_read(s->y, out, BYTES * sizeof(float)));
    return hr_tensor_read(hr_tensor_grad(s->x), dx, BYTES * sizeof(float));
}

static hr_status read_weights(toy_model *m, float *grad)
{
    for (int i = 0; i < TOY_WEIGHTS; i++) {
        hr_tensor *g = hr_tensor_grad(m->weight[i]);
        if (g)
            HR_TRY(hr_tensor_read(g, &grad[(size_t)i * TOY_WIDTH],
                                  TOY_WIDTH * sizeof(float)));
        HR_TRY(hr_tensor_set_grad(m->weight[i], NULL));
    }
    return HR_OK;
}

/* Forward of b, then f's forward beside b's backward, then f's backward; serial, each by itself. */
static hr_status pair(toy_model *m, int b_layers, bool serial, result *out)
{
    side f, b;
    HR_TRY(build(m, b_layers, 0, serial, &b));
    HR_TRY(build(m, TOY_LAYERS, 1, serial, &f));
    HR_TRY(run(&b, NULL));
    if (serial) {
        HR_TRY(run(&f, NULL));
        HR_TRY(run(NULL, &b));
    } else {
        HR_TRY(run(&f, &b));
    }
    HR_TRY(run(NULL, &f));
    HR_TRY(hr_device_synchronize(hr_device_current()));
    HR_TRY(read_side(&f, out->f_out, out->f_dx));
    HR_TRY(read_side(&b, out->b_out, out->b_dx));
    drop(&f);
    drop(&b);
    return read_weights(m, out->grad);
}

static hr_status all_depths(hr_group *world, void *arg)
{
    toy_model m;
    int rank = hr_group_rank(world);
    HR_TRY(toy_model_init(&m, world, false));
    HR_TRY(hr_set_streams(NULL, false));
    for (int layers = 0; layers < DEPTHS; layers++) {
        seen *s = &got[rank][layers];
        HR_TRY(pair(&m, layers, true, &s->serial));
        s->log = (toy_watch){.random = 77U * (uint32_t)(rank + 1) + (uint32_t)layers,
                             .delay_us = 150};
        toy_watch_set(&s->log);
        HR_TRY(pair(&m, layers, false, &s->overlapped));
        toy_watch_set(NULL);
    }
    toy_model_fini(&m);
    return HR_OK;
}

static int run_all(void **state)
{
    memset(got, 0, sizeof got);
    return hr_local_run(RANKS,
                        &(hr_local_opts){HR_INIT(hr_local_opts), .timeout_s = 60},
                        all_depths, NULL) < 0;
}

static void pain_5_overlap_with_fewer_layers_equals_no_overlap_to_the_bit(void **state)
{
    for (int r = 0; r < RANKS; r++)
        for (int layers = 0; layers < DEPTHS; layers++)
            assert_memory_equal(&got[r][layers].overlapped, &got[r][layers].serial,
                                sizeof(result));
}

static void pain_5_ranks_issue_the_same_collectives_whatever_their_timing(void **state)
{
    /* two a layer and direction, of the two layers with experts: 0 and 2 */
    static const int experts[DEPTHS] = {0, 1, 1, 2};
    for (int layers = 0; layers < DEPTHS; layers++) {
        const toy_watch *a = &got[0][layers].log, *b = &got[1][layers].log;
        assert_int_equal(a->n, 4 * (2 + experts[layers]));
        assert_int_equal(a->n, b->n);
        assert_memory_equal(a->log, b->log, (size_t)a->n * sizeof a->log[0]);
    }
}

/* The layers of both directions take turns: their exchanges do not stand in two blocks. */
static void exchanges_of_both_directions_interleave(void **state)
{
    const toy_watch *log = &got[0][TOY_LAYERS].log;
    int turns = 0;
    for (int i = 1; i < log->n; i++)
        turns += (log->log[i] < 0) != (log->log[i - 1] < 0);
    assert_true(turns > 2);
}

static void weights_get_gradients_from_either_chunk(void **state)
{
    const result *none = &got[0][0].serial, *all = &got[0][TOY_LAYERS].serial;
    assert_memory_not_equal(none->grad, all->grad, sizeof none->grad);
    for (int i = 0; i < (TOY_WEIGHTS - 1) * TOY_WIDTH; i++)
        assert_true(none->grad[i] != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pain_5_overlap_with_fewer_layers_equals_no_overlap_to_the_bit),
        cmocka_unit_test(pain_5_ranks_issue_the_same_collectives_whatever_their_timing),
        cmocka_unit_test(exchanges_of_both_directions_interleave),
        cmocka_unit_test(weights_get_gradients_from_either_chunk),
    };
    return cmocka_run_group_tests(tests, run_all, NULL);
}
