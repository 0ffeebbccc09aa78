/* attention against plain loops over all pairs. */
#include "op_check.h"
#include "reference.h"
#include <stdlib.h>

struct shape {
    int64_t sequences, seq_len, heads, width; /* of a head */
};

static hr_status run(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                     hr_tensor **out)
{
    const struct shape *s = ctx;
    return hr_op_attention(in[0], (int)s->heads, s->seq_len, 100.0F, out);
}

static double plain(const void *ctx, double *const *in, double *out)
{
    const struct shape *s = ctx;
    ref_attention(in[0], s->sequences * s->seq_len, s->heads * s->width, s->heads,
                  s->seq_len, 100.0, out);
    return 0;
}

static void check(struct shape s)
{
    int64_t n = s.sequences * s.seq_len;
    op_check_run(&(op_check){
        .ctx = &s,
        .run = run,
        .reference = plain,
        .in = {{.ndim = 2, .shape = {n, 3 * s.heads * s.width}, .scale = 2}},
        .tolerance = 2e-5});
}

static void one_block_matches_plain_loops(void **state)
{
    check((struct shape){1, 1, 1, 2});
    check((struct shape){1, 5, 1, 2});
    check((struct shape){2, 16, 3, 6});
    check((struct shape){1, 40, 1, 32});
    check((struct shape){1, 64, 2, 16});
}

static void several_blocks_match_plain_loops(void **state)
{
    check((struct shape){1, 65, 1, 10});
    check((struct shape){2, 128, 1, 32});
    check((struct shape){1, 150, 2, 20});
}

static void no_sequence_is_ordinary(void **state)
{
    check((struct shape){0, 16, 2, 4});
    check((struct shape){0, INT64_MAX, 2, 4});
}

/* The first token of each sequence sees itself alone; a later one does not change it. */
static void a_token_does_not_see_what_follows(void **state)
{
    enum { T = 70, C = 8 };
    hr_device *dev = op_open(1);
    float *values = calloc(T * 3 * C, sizeof *values), out[2][T * C];
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < T * 3 * C; i++)
            values[i] = (float)op_random(1, (uint64_t)i);
        for (int i = 66 * 3 * C; turn == 1 && i < T * 3 * C; i++)
            values[i] = 1e3F;
        hr_tensor *x = op_f32(OP_SHAPE(T, 3 * C), values), *y;
        op_ok(hr_op_attention(x, 2, T, 1e4F, &y));
        op_ok(hr_tensor_read(y, out[turn], sizeof out[turn]));
        hr_tensor_release(y);
        hr_tensor_release(x);
    }
    assert_memory_equal(out[0], out[1], 66 * C * sizeof(float));
    assert_memory_equal(out[0], values + 2 * C, C * sizeof(float)); /* v of token 0 */
    free(values);
    op_close(dev);
}

/* Scores in the hundreds: only differences to the greatest may be put through exp. */
static void great_scores_do_not_overflow(void **state)
{
    struct shape s = {1, 130, 1, 4};
    op_check_run(&(op_check){.ctx = &s,
                             .run = run,
                             .reference = plain,
                             .in = {{.ndim = 2, .shape = {130, 12}, .scale = 20}},
                             .tolerance = 2e-3});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_block_matches_plain_loops),
        cmocka_unit_test(several_blocks_match_plain_loops),
        cmocka_unit_test(no_sequence_is_ordinary),
        cmocka_unit_test(a_token_does_not_see_what_follows),
        cmocka_unit_test(great_scores_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
