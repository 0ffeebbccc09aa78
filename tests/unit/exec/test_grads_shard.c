/* Gradients sharded over data-parallel ranks: a step comes to the same bits as without, each rank having
 * done its own range alone. Gradients are such that another order of addition gives other bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "support/holds.h"
#include "unit/exec/grads_rig.h"

enum { ROOM = GRADS_ROOM, ENTRIES = 8, COPIED = 6 /* and those behind, if any */ };

/* Neighbours, gaps, one element, counts that divide and counts that do not, two stages. */
static const struct {
    int place, count, stage;
} entry[ENTRIES] = {{0, 1, 0},   {1, 16, 0},  {17, 7, 0},  {32, 60, 1},
                    {100, 5, 1}, {105, 8, 0}, {120, 2, 0}, {128, 25, 0}};

static float gradient(int rank, int i)
{
    return (float)((rank * 7919 + i * 104729 + 31) % 100003) / (float)(1 + i % 13);
}

static float start_weight(int i)
{
    return (float)(i % 17) / 3.0F;
}

/* ---- one step ------------------------------------------------------------------------------------- */
/* What a step is done with, and what it came to: of each rank the weights, and the norm. */
typedef struct step_case {
    bool shard, copies;
    size_t bucket_bytes;
    float weight[8][ROOM];
    double norm[8];
} step_case;

/* All ranks hold all, over all of them; or each half of the ranks has parameters of its own, over that half, and
 * both hold the last ones. */
static hr_status open_groups(const step_case *c, hr_group *world, hr_group **copies,
                             hr_group **over)
{
    int n = hr_group_size(world) / 2;
    *copies = NULL;
    *over = c->copies ? NULL : hr_group_retain(world);
    for (int i = 0; i < n && c->copies; i++)
        HR_TRY(grads_rig_group(world, (int[]){i, n + i}, 2, copies));
    for (int h = 0; h < 2 && c->copies; h++)
        HR_TRY(grads_rig_group(world, (int[]){h * n, h * n + 1}, n, over));
    return HR_OK;
}

static int id_of(int i, int half)
{
    return i < COPIED ? i + half * COPIED : i + COPIED;
}

static void describe(grads_rig *r, hr_group *copies, hr_group *over,
                     hr_grad_desc d[ENTRIES])
{
    int half = copies ? hr_group_rank(copies) : 0;
    for (int i = 0; i < ENTRIES; i++)
        d[i] = (hr_grad_desc){.grad = hr_tensor_f32(r->grad) + entry[i].place,
                              .weight = hr_tensor_f32(r->weight) + entry[i].place,
                              .count = entry[i].count,
                              .stage = entry[i].stage,
                              .id = copies ? id_of(i, half) : i,
                              .copies = i < COPIED ? NULL : copies,
                              .over = over};
}

static hr_status start(grads_rig *r)
{
    float g[ROOM], w[ROOM];
    for (int i = 0; i < ROOM; i++) {
        g[i] = gradient(hr_group_rank(r->world), i);
        w[i] = start_weight(i);
    }
    HR_TRY(hr_tensor_write(r->grad, g, sizeof g));
    return hr_tensor_write(r->weight, w, sizeof w);
}

static hr_status norm(grads_rig *r, double *out)
{
    float g[ROOM];
    double squares[ROOM] = {0};
    HR_TRY(hr_tensor_read(r->grad, g, sizeof g));
    for (int i = 0; i < ENTRIES; i++) {
        hr_grad_range own = hr_grads_range(r->g, i);
        for (int64_t k = own.begin; k < own.begin + own.count; k++)
            squares[i] += (double)g[entry[i].place + k] * g[entry[i].place + k];
    }
    HR_TRY(hr_tensor_write(r->squares, squares, sizeof squares));
    return hr_grads_norm(r->g, hr_tensor_data(r->squares), out);
}

/* On the current stream, with nothing waited for. */
static hr_status set_weights(grads_rig *r, const float w[ROOM])
{
    int64_t n = ROOM;
    hr_tensor *t;
    HR_TRY(hr_tensor_create(HR_F32, 1, &n, &t));
    HR_TRY(hr_tensor_write(t, w, sizeof(float[ROOM])));
    HR_TRY(hr_copy(hr_stream_current(), hr_tensor_data(r->weight), hr_tensor_data(t),
                   sizeof(float[ROOM])));
    hr_tensor_release(t);
    return HR_OK;
}

static hr_status update(grads_rig *r, bool shard, double by)
{
    float g[ROOM], w[ROOM];
    HR_TRY(hr_tensor_read(r->grad, g, sizeof g));
    HR_TRY(hr_tensor_read(r->weight, w, sizeof w));
    for (int i = 0; i < ENTRIES; i++) {
        hr_grad_range all = {0, entry[i].count};
        hr_grad_range own = shard ? hr_grads_range(r->g, i) : all;
        for (int64_t k = own.begin; k < own.begin + own.count; k++)
            w[entry[i].place + k] -= g[entry[i].place + k] / (float)by;
    }
    return set_weights(r, w);
}

static hr_status steps(grads_rig *r, step_case *c)
{
    int me = hr_group_rank(r->world);
    for (int step = 0; step < 2; step++) {
        HR_TRY(start(r));
        hr_grads_begin(r->g);
        HR_TRY(hr_grads_reduce(r->g, 1));
        HR_TRY(hr_grads_finish(r->g));
        HR_TRY(norm(r, &c->norm[me]));
        HR_TRY(update(r, c->shard, c->norm[me]));
        HR_TRY(hr_grads_gather(r->g));
        HR_TRY(hr_tensor_read(r->weight, c->weight[me], sizeof c->weight[me]));
    }
    return HR_OK;
}

static hr_status one_case(hr_group *world, void *arg)
{
    step_case *c = arg;
    hr_grad_desc d[ENTRIES];
    hr_group *copies, *over;
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    HR_TRY(open_groups(c, world, &copies, &over));
    describe(&r, copies, over, d);
    HR_TRY(grads_rig_make_as(
        &r, (hr_grads_opts){HR_INIT(hr_grads_opts), .grads = d, .n = ENTRIES,
                            .ids = ENTRIES + (copies ? COPIED : 0), .shard = c->shard,
                            .bucket_bytes = c->bucket_bytes}));
    HR_TRY(steps(&r, c));
    HR_TRY(grads_rig_close(&r));
    hr_group_release(copies);
    hr_group_release(over);
    return HR_OK;
}

/* Whole, and sharded in large buckets, small ones, and such that nothing shares one. */
static void same_bits(int ranks, bool copies, const char *engine)
{
    static const size_t buckets[] = {0, 128, 4};
    step_case whole = {.copies = copies}, *sharded = calloc(1, sizeof *sharded);
    assert_non_null(sharded);
    grads_rig_run(ranks, engine, one_case, &whole);
    assert_true(whole.weight[0][0] != start_weight(0) && isfinite(whole.norm[0]));
    for (size_t i = 0; i < sizeof buckets / sizeof buckets[0]; i++) {
        *sharded =
            (step_case){.shard = true, .copies = copies, .bucket_bytes = buckets[i]};
        grads_rig_run(ranks, engine, one_case, sharded);
        assert_memory_equal(sharded->weight, whole.weight, sizeof whole.weight);
        assert_memory_equal(sharded->norm, whole.norm, sizeof whole.norm);
    }
    free(sharded);
}

static void a_sharded_step_has_the_bits_of_a_whole_one(void **state)
{
    for (int ranks = 1; ranks <= 5; ranks++)
        same_bits(ranks, false, NULL);
}

static void copies_are_added_before_ranges_are_cut(void **state)
{
    same_bits(2, true, NULL);
    same_bits(4, true, NULL);
}

static void its_order_stands_on_events_alone(void **state)
{
    same_bits(3, false, "local-late");
    same_bits(4, true, "local-late");
    same_bits(4, true, "local-delays");
}

/* ---- overlap ------------------------------------------------------------------------------------- */
/* Of entry `i` this rank's range is the sum over all; or it is as it was. */
static hr_status check_sums(const grads_rig *r, int i, bool summed)
{
    float g[ROOM];
    int me = hr_group_rank(r->world), n = hr_group_size(r->world);
    hr_grad_range own = hr_grads_range(r->g, i);
    HR_TRY(hr_tensor_read(r->grad, g, sizeof g));
    for (int k = 0; k < own.count; k++) {
        int at = entry[i].place + (int)own.begin + k;
        float want = gradient(summed ? 0 : me, at);
        for (int rank = 1; rank < n && summed; rank++)
            want += gradient(rank, at);
        HOLDS(g[at] == want);
    }
    return HR_OK;
}

/* Nothing but the stream of reductions is waited for. */
static hr_status stage_ahead(hr_group *world, void *arg)
{
    hr_grad_desc d[ENTRIES];
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    describe(&r, NULL, world, d);
    HR_TRY(grads_rig_make_as(&r, (hr_grads_opts){HR_INIT(hr_grads_opts), .grads = d,
                                                 .n = ENTRIES, .ids = ENTRIES,
                                                 .shard = true}));
    HR_TRY(start(&r));
    hr_grads_begin(r.g);
    HR_TRY(hr_grads_reduce(r.g, 1));
    HR_TRY(hr_stream_synchronize(r.stream));
    for (int i = 0; i < ENTRIES; i++)
        HR_TRY(check_sums(&r, i, entry[i].stage == 1));
    HR_TRY(hr_grads_finish(r.g));
    for (int i = 0; i < ENTRIES; i++)
        HR_TRY(check_sums(&r, i, true));
    return grads_rig_close(&r);
}

static void a_stage_is_scattered_before_the_step_is_finished(void **state)
{
    grads_rig_run(3, NULL, stage_ahead, NULL);
}

/* ---- ranges ------------------------------------------------------------------------------------------ */
static hr_status ranges(hr_group *world, void *arg)
{
    int me = hr_group_rank(world), n = hr_group_size(world);
    hr_grad_desc d[20];
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    for (int i = 0; i < 20; i++)
        d[i] = (hr_grad_desc){
            .grad = hr_tensor_f32(r.grad), .count = i, .id = i, .over = world};
    HR_TRY(grads_rig_make(&r, d, 20, 20));
    for (int i = 0; i < 20; i++) {
        hr_grad_range own = hr_grads_range(r.g, i);
        int each = (i + n - 1) / n, begin = each * me < i ? each * me : i;
        HOLDS(own.begin == begin);
        HOLDS(own.count == (begin + each < i ? each : i - begin));
    }
    HOLDS(hr_grads_range(r.g, -1).count == 0 && hr_grads_range(r.g, 20).count == 0);
    HOLDS(hr_grads_range(NULL, 0).count == 0);
    return grads_rig_close(&r);
}

static void ranges_are_equal_shares_but_for_the_last(void **state)
{
    for (int ranks = 1; ranks <= 4; ranks++)
        grads_rig_run(ranks, NULL, ranges, NULL);
}

/* ---- the norm ------------------------------------------------------------------------------------------ */
/* Two ranks have 1e16 and 1 of parameter 0, and 1 each of parameter 1. A 1 alone is lost beside 1e16, and the sum
 * of parameter 1 is not. */
static hr_status norm_of_slices(hr_group *world, void *arg)
{
    int me = hr_group_rank(world);
    double squares[ROOM] = {me ? 1 : 1e16, 1}, got;
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    hr_grad_desc d[2] = {
        {.grad = hr_tensor_f32(r.grad), .count = 2, .over = world},
        {.grad = hr_tensor_f32(r.grad) + 2, .count = 2, .id = 1, .over = world}};
    HR_TRY(grads_rig_make(&r, d, 2, 2));
    HR_TRY(hr_tensor_write(r.squares, squares, sizeof squares));
    HR_TRY(hr_grads_norm(r.g, hr_tensor_data(r.squares), &got));
    HOLDS(got == sqrt((1e16 + 1) + 2));
    return grads_rig_close(&r);
}

static void the_norm_adds_ranges_before_parameters(void **state)
{
    volatile double one_by_one = 1e16;
    for (int i = 0; i < 3; i++)
        one_by_one += 1;
    assert_true(sqrt(one_by_one) != sqrt((1e16 + 1) + 2));
    grads_rig_run(2, NULL, norm_of_slices, NULL);
}

/* ---- weights of another type ----------------------------------------------------------------------------- */
/* Rank r has bytes 10 * (r + 1) in its own ranges, and 1 elsewhere. */
static hr_status bytes(hr_group *world, void *arg)
{
    int me = hr_group_rank(world), counts[] = {5, 6}, at[] = {0, 8};
    unsigned char w[ROOM * sizeof(float)], got[sizeof w];
    hr_grad_desc d[2];
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    for (int i = 0; i < 2; i++)
        d[i] = (hr_grad_desc){.grad = hr_tensor_f32(r.grad) + at[i],
                              .weight = (char *)hr_tensor_data(r.weight) + at[i],
                              .count = counts[i],
                              .id = i,
                              .over = world};
    HR_TRY(grads_rig_make_as(&r, (hr_grads_opts){HR_INIT(hr_grads_opts), .grads = d,
                                                 .n = 2, .ids = 2, .shard = true,
                                                 .weight_dtype = HR_U8}));
    memset(w, 1, sizeof w);
    for (int i = 0; i < 2; i++) {
        hr_grad_range own = hr_grads_range(r.g, i);
        memset(w + at[i] + own.begin, 10 * (me + 1), (size_t)own.count);
    }
    HR_TRY(hr_tensor_write(r.weight, w, sizeof w));
    HR_TRY(hr_grads_gather(r.g));
    HR_TRY(hr_tensor_read(r.weight, got, sizeof got));
    const unsigned char want[] = {10, 10, 10, 20, 20, 1,  1, 1,
                                  10, 10, 10, 20, 20, 20, 1};
    HOLDS(memcmp(got, want, sizeof want) == 0);
    return grads_rig_close(&r);
}

static void weights_of_any_type_are_gathered(void **state)
{
    grads_rig_run(2, NULL, bytes, NULL);
}

/* ---- what is refused --------------------------------------------------------------------------------------- */
static hr_status refused(hr_group *world, void *arg)
{
    int me = hr_group_rank(world);
    grads_rig r;
    HR_TRY(grads_rig_open(&r, world));
    hr_grad_desc d = {.grad = hr_tensor_f32(r.grad), .count = 1, .over = world};
    hr_grads_opts o = {HR_INIT(hr_grads_opts), .grads = &d, .n = 1, .ids = 1,
                       .shard = true};
    HOLDS(grads_rig_make_as(&r, o) == HR_ERR_INVALID && r.g == NULL);
    HOLDS(strstr(hr_last_error(), "entry 0 is sharded, and has no weights"));
    d.weight = hr_tensor_f32(r.weight);
    o.shard = me == 0;
    HOLDS(grads_rig_make_as(&r, o) == HR_ERR_MISMATCH && r.g == NULL);
    HOLDS(strcmp(hr_last_reason(), "grads_shard") == 0);
    HOLDS(strstr(hr_last_error(), "1 of 2 ranks shard them"));
    o.weight_dtype = (hr_dtype)99;
    HOLDS(grads_rig_make_as(&r, o) == HR_ERR_INVALID && r.g == NULL);
    return grads_rig_close(&r);
}

static void what_cannot_be_sharded_is_refused_on_all_ranks(void **state)
{
    grads_rig_run(2, NULL, refused, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sharded_step_has_the_bits_of_a_whole_one),
        cmocka_unit_test(copies_are_added_before_ranges_are_cut),
        cmocka_unit_test(its_order_stands_on_events_alone),
        cmocka_unit_test(a_stage_is_scattered_before_the_step_is_finished),
        cmocka_unit_test(ranges_are_equal_shares_but_for_the_last),
        cmocka_unit_test(the_norm_adds_ranges_before_parameters),
        cmocka_unit_test(weights_of_any_type_are_gathered),
        cmocka_unit_test(what_cannot_be_sharded_is_refused_on_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
