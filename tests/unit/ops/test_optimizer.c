/* sum_squares and adamw against plain loops. */
#include "op_check.h"
#include <math.h>
#include <stdlib.h>

static double device_double(hr_tensor *cell)
{
    double v;
    op_ok(hr_tensor_read(cell, &v, sizeof v));
    return v;
}

static double sum_squares(int cores, int64_t n)
{
    hr_device *dev = op_open(cores);
    float *values = malloc((size_t)(n + 1) * sizeof *values);
    double start = 0.5;
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)op_random(5, (uint64_t)i);
    hr_tensor *g = op_f32(OP_SHAPE(n), values), *cell;
    op_ok(hr_tensor_create(HR_I64, OP_SHAPE(1), &cell));
    op_ok(hr_tensor_write(cell, &start, sizeof start));
    op_ok(hr_op_sum_squares(g, hr_tensor_data(cell)));
    double got = device_double(cell), want = start;
    for (int64_t i = 0; i < n; i++)
        want += (double)values[i] * (double)values[i];
    assert_true(fabs(got - want) <= 1e-12 * want);
    free(values);
    hr_tensor_release(cell);
    hr_tensor_release(g);
    op_close(dev);
    return got;
}

static void squares_are_added_in_the_same_order_on_any_team(void **state)
{
    sum_squares(1, 0);
    sum_squares(1, 37);
    assert_true(sum_squares(1, 300007) == sum_squares(3, 300007));
}

enum { N = 70001 };
struct adam {
    float *w, *g, *m, *v;
};

static struct adam adam_values(void)
{
    struct adam a = {malloc(N * sizeof(float)), malloc(N * sizeof(float)),
                     malloc(N * sizeof(float)), malloc(N * sizeof(float))};
    for (uint64_t i = 0; i < N; i++) {
        a.w[i] = (float)op_random(1, i);
        a.g[i] = (float)op_random(2, i);
        a.m[i] = (float)op_random(3, i);
        a.v[i] = (float)(op_random(4, i) + 1);
    }
    return a;
}

static void adam_free(struct adam *a)
{
    free(a->w);
    free(a->g);
    free(a->m);
    free(a->v);
}

static void adam_step(int cores, struct adam *a, const hr_adamw_opts *opts)
{
    hr_device *dev = op_open(cores);
    hr_tensor *w = op_f32(OP_SHAPE(N), a->w), *g = op_f32(OP_SHAPE(N), a->g);
    hr_tensor *m = op_f32(OP_SHAPE(N), a->m), *v = op_f32(OP_SHAPE(N), a->v);
    op_ok(hr_op_adamw(w, g, m, v, opts));
    op_ok(hr_tensor_read(w, a->w, N * sizeof(float)));
    op_ok(hr_tensor_read(m, a->m, N * sizeof(float)));
    op_ok(hr_tensor_read(v, a->v, N * sizeof(float)));
    hr_tensor_release(w);
    hr_tensor_release(g);
    hr_tensor_release(m);
    hr_tensor_release(v);
    op_close(dev);
}

static const hr_adamw_opts step_three = {
    HR_INIT(hr_adamw_opts), .lr = 0.01F,          .beta1 = 0.9F, .beta2 = 0.95F,
    .eps = 1e-8F,           .weight_decay = 0.1F, .step = 3,     .grad_scale = 0.5F};

static void adamw_matches_the_paper(void **state)
{
    struct adam a = adam_values(), was = adam_values();
    const hr_adamw_opts *o = &step_three;
    adam_step(1, &a, o);
    double b1 = (double)o->beta1, b2 = (double)o->beta2, lr = (double)o->lr;
    for (int i = 0; i < N; i++) {
        double g = (double)was.g[i] * 0.5, w = (double)was.w[i];
        double m = b1 * (double)was.m[i] + (1 - b1) * g;
        double v = b2 * (double)was.v[i] + (1 - b2) * g * g;
        double hat = m / (1 - b1 * b1 * b1), hat2 = v / (1 - b2 * b2 * b2);
        w -= lr * (double)o->weight_decay * w + lr * hat / (sqrt(hat2) + 1e-8);
        if (fabs((double)a.w[i] - w) > 1e-6 * (1 + fabs(w)) ||
            fabs((double)a.m[i] - m) > 1e-6 || fabs((double)a.v[i] - v) > 1e-6)
            fail_msg("[%d] w %.9g, not %.9g", i, (double)a.w[i], w);
    }
    adam_free(&was);
    adam_free(&a);
}

static void adamw_is_the_same_on_any_team(void **state)
{
    struct adam a = adam_values(), b = adam_values();
    adam_step(1, &a, &step_three);
    adam_step(3, &b, &step_three);
    assert_memory_equal(a.w, b.w, N * sizeof(float));
    assert_memory_equal(a.m, b.m, N * sizeof(float));
    assert_memory_equal(a.v, b.v, N * sizeof(float));
    adam_free(&a);
    adam_free(&b);
}

static void bad_options_are_named(void **state)
{
    hr_device *dev = op_open(1);
    hr_tensor *t = op_f32(OP_SHAPE(3), NULL), *u = op_f32(OP_SHAPE(4), NULL);
    hr_adamw_opts o = step_three;
    op_fails(hr_op_adamw(t, t, u, t, &o), HR_ERR_INVALID, "adamw", "m is f32 [4]",
             "f32 [3]", NULL);
    o.step = 0;
    op_fails(hr_op_adamw(t, t, t, t, &o), HR_ERR_INVALID, "step is 0", NULL);
    o.size = 4;
    op_fails(hr_op_adamw(t, t, t, t, &o), HR_ERR_INVALID, "HR_INIT", NULL);
    op_fails(hr_op_adamw(t, t, t, t, NULL), HR_ERR_INVALID, "opts is NULL", NULL);
    op_fails(hr_op_sum_squares(t, NULL), HR_ERR_INVALID, "sum is NULL", NULL);
    hr_tensor_release(t);
    hr_tensor_release(u);
    op_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squares_are_added_in_the_same_order_on_any_team),
        cmocka_unit_test(adamw_matches_the_paper),
        cmocka_unit_test(adamw_is_the_same_on_any_team),
        cmocka_unit_test(bad_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
