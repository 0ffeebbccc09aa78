/* router, sort_choices, permute, unpermute, permute_probs. */
#include "op_check.h"
#include "reference.h"
#include <math.h>
#include <string.h>

/* ---- router ---- */
static hr_status run_router(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                            hr_tensor **out)
{
    const struct ref_router *r = ctx;
    hr_router_opts opts = {HR_INIT(hr_router_opts), .top_k = (int)r->top_k,
                           .normalize = r->normalize, .seq_len = r->seq_len,
                           .aux_scale = (float)r->aux_scale};
    hr_tensor *index = NULL;
    hr_status st = hr_op_router(in[0], &opts, out, &index);
    hr_tensor_release(index);
    return st;
}

static double plain_router(const void *ctx, double *const *in, double *out)
{
    return ref_router(ctx, in[0], out, NULL);
}

static void check_router(struct ref_router r)
{
    op_check_run(
        &(op_check){.ctx = &r,
                    .run = run_router,
                    .reference = plain_router,
                    .in = {{.ndim = 2, .shape = {r.n, r.experts}, .scale = 2}}});
}

static void router_matches_plain_loops(void **state)
{
    check_router((struct ref_router){6, 5, 1, 3, 0, false});
    check_router((struct ref_router){6, 5, 2, 3, 0, false});
    check_router((struct ref_router){6, 5, 2, 3, 0, true});
    check_router((struct ref_router){6, 5, 5, 3, 0, true});
    check_router((struct ref_router){0, 5, 2, 3, 0, true});
    check_router((struct ref_router){700, 8, 2, 0, 0, true});
}

static void balance_loss_joins_the_gradient_of_its_sequence(void **state)
{
    check_router((struct ref_router){6, 5, 1, 3, 0.5, false});
    check_router((struct ref_router){64, 8, 2, 16, 0.25, true});
    check_router((struct ref_router){0, 8, 2, 16, 0.25, true});
}

static void balance_loss_is_added_to_its_sum(void **state)
{
    enum { N = 12, E = 4 };
    struct ref_router r = {N, E, 2, 4, 0.5, true};
    double logits[N * E], probs[N * 2];
    float values[N * E], got, before = 10;
    hr_device *dev = op_open(2);
    for (int i = 0; i < N * E; i++)
        logits[i] = (double)(values[i] = (float)op_random(3, (uint64_t)i));
    hr_tensor *x = op_f32(OP_SHAPE(N, E), values), *sum = op_f32(OP_SHAPE(1), &before);
    hr_router_opts opts = {HR_INIT(hr_router_opts), .top_k = 2,
                           .normalize = true,       .seq_len = 4,
                           .aux_scale = 0.5F,       .aux_sum = sum};
    hr_tensor *p, *index;
    op_ok(hr_op_router(x, &opts, &p, &index));
    op_ok(hr_tensor_read(sum, &got, sizeof got));
    assert_true(fabs((double)got - 10 - ref_router(&r, logits, probs, NULL)) < 1e-5);
    hr_tensor_release(index);
    hr_tensor_release(p);
    hr_tensor_release(sum);
    hr_tensor_release(x);
    op_close(dev);
}

static void choose(const float *logits, int experts, int top_k, int32_t *index)
{
    hr_tensor *x = op_f32(OP_SHAPE(1, experts), logits), *p, *idx;
    op_ok(hr_op_router(x, &(hr_router_opts){HR_INIT(hr_router_opts), .top_k = top_k},
                       &p, &idx));
    assert_false(hr_tensor_requires_grad(idx));
    op_ok(hr_tensor_read(idx, index, (size_t)top_k * sizeof *index));
    hr_tensor_release(idx);
    hr_tensor_release(p);
    hr_tensor_release(x);
}

static void ties_go_to_the_lower_expert(void **state)
{
    int32_t index[4];
    hr_device *dev = op_open(1);
    choose((float[]){1, 2, 2, 1}, 4, 3, index);
    assert_memory_equal(index, ((int32_t[]){1, 2, 0}), 3 * sizeof *index);
    choose((float[]){0, 0, 0, 0}, 4, 4, index);
    assert_memory_equal(index, ((int32_t[]){0, 1, 2, 3}), 4 * sizeof *index);
    op_close(dev);
}

static void not_a_number_still_chooses_experts_that_exist(void **state)
{
    int32_t index[2];
    hr_device *dev = op_open(1);
    choose((float[]){NAN, NAN, NAN}, 3, 2, index);
    assert_memory_equal(index, ((int32_t[]){0, 1}), sizeof index);
    op_close(dev);
}

/* ---- sort_choices ---- */
struct sorted {
    hr_tensor *source, *slot, *counts;
};

static struct sorted sort(const int32_t *index, int64_t n, int64_t k, int experts)
{
    struct sorted s;
    hr_tensor *idx = op_i32(OP_SHAPE(n, k), index);
    op_ok(hr_op_sort_choices(idx, experts, &s.source, &s.slot, &s.counts));
    hr_tensor_release(idx);
    return s;
}

static void sorted_release(struct sorted *s)
{
    hr_tensor_release(s->source);
    hr_tensor_release(s->slot);
    hr_tensor_release(s->counts);
}

static void holds(hr_tensor *t, const int32_t *want, size_t bytes)
{
    int32_t got[64];
    assert_int_equal(hr_tensor_bytes(t), bytes);
    op_ok(hr_tensor_read(t, got, bytes));
    assert_memory_equal(got, want, bytes);
}

static void choices_are_sorted_by_expert_then_token_then_choice(void **state)
{
    hr_device *dev = op_open(1);
    struct sorted s = sort((int32_t[]){3, 0, 0, 3, 1, 3}, 3, 2, 5);
    holds(s.counts, (int32_t[]){2, 1, 0, 3, 0}, 20);
    holds(s.source, (int32_t[]){0, 1, 2, 0, 1, 2}, 24);
    holds(s.slot, (int32_t[]){3, 0, 1, 4, 2, 5}, 24);
    sorted_release(&s);
    op_close(dev);
}

static void no_choice_gives_counts_of_zero(void **state)
{
    hr_device *dev = op_open(1);
    struct sorted s = sort(NULL, 0, 2, 3);
    holds(s.counts, (int32_t[]){0, 0, 0}, 12);
    assert_int_equal(hr_tensor_dim(s.source, 0), 0);
    assert_int_equal(hr_tensor_dim(s.slot, 1), 2);
    sorted_release(&s);
    op_close(dev);
}

/* ---- moving rows ---- */
struct moves {
    int64_t n, k, width;
};
enum { EXPERTS = 3, MOST = 1024 };

static void random_index(const struct moves *m, int32_t *index)
{
    for (int64_t i = 0; i < m->n * m->k; i++)
        index[i] = (int32_t)((op_random(8, (uint64_t)i) + 1) * EXPERTS / 2);
}

static struct sorted sort_moves(const struct moves *m)
{
    int32_t index[MOST];
    random_index(m, index);
    return sort(index, m->n, m->k, EXPERTS);
}

/* Slot by slot which copy lies there, by looking for the experts one after the other. */
static void plain_order(const struct moves *m, int64_t *copy_at)
{
    int32_t index[MOST];
    int64_t at = 0;
    random_index(m, index);
    for (int32_t e = 0; e < EXPERTS; e++)
        for (int64_t i = 0; i < m->n * m->k; i++)
            if (index[i] == e)
                copy_at[at++] = i;
}

static hr_status run_permute(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                             hr_tensor **out)
{
    struct sorted s = sort_moves(ctx);
    hr_status st = hr_op_permute(in[0], s.source, s.slot, out);
    sorted_release(&s);
    return st;
}

static double plain_permute(const void *ctx, double *const *in, double *out)
{
    const struct moves *m = ctx;
    int64_t copy_at[MOST];
    plain_order(m, copy_at);
    for (int64_t j = 0; j < m->n * m->k; j++)
        for (int64_t c = 0; c < m->width; c++)
            out[j * m->width + c] = in[0][copy_at[j] / m->k * m->width + c];
    return 0;
}

static hr_status run_unpermute(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                               hr_tensor **out)
{
    struct sorted s = sort_moves(ctx);
    hr_status st = hr_op_unpermute(in[0], s.source, s.slot, out);
    sorted_release(&s);
    return st;
}

static double plain_unpermute(const void *ctx, double *const *in, double *out)
{
    const struct moves *m = ctx;
    int64_t copy_at[MOST];
    plain_order(m, copy_at);
    memset(out, 0, (size_t)(m->n * m->width) * sizeof *out);
    for (int64_t j = 0; j < m->n * m->k; j++)
        for (int64_t c = 0; c < m->width; c++)
            out[copy_at[j] / m->k * m->width + c] += in[0][j * m->width + c];
    return 0;
}

static hr_status run_probs(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                           hr_tensor **out)
{
    struct sorted s = sort_moves(ctx);
    hr_status st = hr_op_permute_probs(in[0], s.slot, out);
    sorted_release(&s);
    return st;
}

static double plain_probs(const void *ctx, double *const *in, double *out)
{
    const struct moves *m = ctx;
    int64_t copy_at[MOST];
    plain_order(m, copy_at);
    for (int64_t j = 0; j < m->n * m->k; j++)
        out[j] = in[0][copy_at[j]];
    return 0;
}

static void check_moves(struct moves m)
{
    op_check_run(&(op_check){.ctx = &m,
                             .run = run_permute,
                             .reference = plain_permute,
                             .in = {{.ndim = 2, .shape = {m.n, m.width}}}});
    op_check_run(&(op_check){.ctx = &m,
                             .run = run_unpermute,
                             .reference = plain_unpermute,
                             .in = {{.ndim = 2, .shape = {m.n * m.k, m.width}}}});
    op_check_run(&(op_check){.ctx = &m,
                             .run = run_probs,
                             .reference = plain_probs,
                             .in = {{.ndim = 2, .shape = {m.n, m.k}}}});
}

static void rows_go_to_their_slots_and_come_back(void **state)
{
    check_moves((struct moves){5, 1, 7});
    check_moves((struct moves){9, 2, 3});
    check_moves((struct moves){0, 2, 3});
    check_moves((struct moves){330, 3, 40});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(router_matches_plain_loops),
        cmocka_unit_test(balance_loss_joins_the_gradient_of_its_sequence),
        cmocka_unit_test(balance_loss_is_added_to_its_sum),
        cmocka_unit_test(ties_go_to_the_lower_expert),
        cmocka_unit_test(not_a_number_still_chooses_experts_that_exist),
        cmocka_unit_test(choices_are_sorted_by_expert_then_token_then_choice),
        cmocka_unit_test(no_choice_gives_counts_of_zero),
        cmocka_unit_test(rows_go_to_their_slots_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
