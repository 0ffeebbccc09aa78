/* Which type a gradient has where numbers are bf16, and what is rounded when gradients meet. */
#include "op_check.h"
#include <stdlib.h>

enum { N = 300 };
static const float tiny = 1.0F / 1024; /* beside 1 in f32, and not in bf16 */

static hr_tensor *leaf(hr_tensor *t)
{
    op_ok(hr_tensor_set_requires_grad(t, true));
    return t;
}

static hr_tensor *filled(hr_dtype type, float value)
{
    float v[N];
    for (int i = 0; i < N; i++)
        v[i] = value;
    return type == HR_F32 ? op_f32(OP_SHAPE(N), v) : op_bf16(OP_SHAPE(N), v);
}

static void holds(hr_tensor *t, hr_dtype type, float value)
{
    float *v = op_contents(t);
    assert_int_equal(hr_tensor_dtype(t), type);
    for (int64_t i = 0; i < hr_tensor_count(t); i++)
        assert_true(v[i] == value);
    free(v);
}

static void release(hr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        hr_tensor_release(t[i]);
}

/* Once where nobody else holds a gradient, and once where the test does. */
static void two_gradients_of_bf16_are_one_of_bf16(void **state)
{
    hr_device *dev = op_open(2);
    for (int held = 0; held < 2; held++) {
        enum { X, Y, Z, G, ALL };
        hr_tensor *t[ALL] = {[X] = leaf(filled(HR_BF16, 1)), [G] = filled(HR_BF16, 1)};
        op_ok(hr_op_add(t[X], t[X], &t[Y]));
        op_ok(hr_op_add(t[Y], held ? t[Y] : t[X], &t[Z]));
        op_ok(hr_backward(&t[Z], &t[G], 1));
        holds(hr_tensor_grad(t[X]), HR_BF16, held ? 4 : 3);
        release(t, ALL);
    }
    op_close(dev);
}

static void a_buffer_of_f32_takes_gradients_of_bf16(void **state)
{
    enum { X, B, Y, G, ALL };
    hr_device *dev = op_open(1);
    hr_tensor *t[ALL] = {[X] = leaf(filled(HR_BF16, 1)),
                         [B] = filled(HR_F32, tiny),
                         [G] = filled(HR_BF16, 1)};
    op_ok(hr_tensor_set_grad(t[X], t[B]));
    op_ok(hr_op_add(t[X], t[X], &t[Y]));
    op_ok(hr_backward(&t[Y], &t[G], 1));
    holds(t[B], HR_F32, 2 + tiny);
    release(t, ALL);
    op_close(dev);
}

static hr_tensor *kept; /* another handle of the gradient that comes, if not NULL */

static hr_status give_f32(hr_function *fn, hr_tensor *const *grad_out,
                          hr_tensor **grad_in)
{
    grad_in[0] = kept ? hr_tensor_retain(kept) : filled(HR_F32, tiny);
    return HR_OK;
}

/* x; its gradient is f32, whatever x is. */
static hr_tensor *made_by_another(hr_tensor *x)
{
    static const hr_function_class cls = {.name = "f32", .backward = give_f32};
    hr_function *fn;
    hr_tensor *y;
    op_ok(hr_tensor_alias(x, &y));
    op_ok(hr_function_create(&cls, &x, 1, &fn));
    op_ok(hr_function_finish(fn, &y, 1));
    return y;
}

/* Whichever of the two comes first, and whether its memory may be written or not. */
static void a_sum_of_two_types_is_f32(void **state)
{
    hr_device *dev = op_open(1);
    for (int wide_first = 0; wide_first < 2; wide_first++)
        for (int held = 0; held < 2; held++) {
            enum { X, A, B, G, KEPT, ALL };
            hr_tensor *t[ALL] = {[X] = leaf(filled(HR_BF16, 1)),
                                 [G] = filled(HR_BF16, 1),
                                 [KEPT] = filled(HR_F32, tiny)};
            kept = held ? t[KEPT] : NULL;
            if (wide_first) { /* what was made last goes first */
                op_ok(hr_op_add(t[X], t[X], &t[A]));
                t[B] = made_by_another(t[X]);
            } else {
                t[B] = made_by_another(t[X]);
                op_ok(hr_op_add(t[X], t[X], &t[A]));
            }
            op_ok(hr_backward(&t[A], (hr_tensor *[]){t[G], t[G]}, 2));
            holds(hr_tensor_grad(t[X]), HR_F32, 2 + tiny);
            holds(t[KEPT], HR_F32, tiny);
            release(t, ALL);
        }
    op_close(dev);
}

/* A weight that is no leaf has its gradient made in f32, and rounded on its way. */
static void a_gradient_inside_the_graph_has_its_tensors_type(void **state)
{
    enum { X, W, V, Y, G, ALL };
    hr_device *dev = op_open(1);
    float ones[2] = {1, tiny}; /* dw = 1 + tiny, rounded to 1 */
    hr_tensor *t[ALL] = {[X] = op_bf16(OP_SHAPE(2, 1), (float[]){1, 1}),
                         [W] = leaf(op_bf16(OP_SHAPE(1, 1), ones)),
                         [G] = op_bf16(OP_SHAPE(2, 1), ones)};
    op_ok(hr_op_view(t[W], OP_SHAPE(1, 1), &t[V]));
    op_ok(hr_op_linear(t[X], t[V], NULL, &t[Y]));
    op_ok(hr_backward(&t[Y], &t[G], 1));
    holds(hr_tensor_grad(t[W]), HR_BF16, 1);
    release(t, ALL);
    op_close(dev);
}

static void a_leaf_has_it_in_f32(void **state)
{
    enum { X, W, Y, G, ALL };
    hr_device *dev = op_open(1);
    float ones[2] = {1, tiny};
    hr_tensor *t[ALL] = {[X] = op_bf16(OP_SHAPE(2, 1), (float[]){1, 1}),
                         [W] = leaf(op_bf16(OP_SHAPE(1, 1), ones)),
                         [G] = op_bf16(OP_SHAPE(2, 1), ones)};
    op_ok(hr_op_linear(t[X], t[W], NULL, &t[Y]));
    op_ok(hr_backward(&t[Y], &t[G], 1));
    holds(hr_tensor_grad(t[W]), HR_F32, 1 + tiny);
    release(t, ALL);
    op_close(dev);
}

static void gradients_of_other_types_are_not_added(void **state)
{
    hr_device *dev = op_open(1);
    hr_tensor *x, *g;
    op_ok(hr_tensor_zeros(HR_F16, OP_SHAPE(N), &x));
    op_ok(hr_tensor_zeros(HR_F16, OP_SHAPE(N), &g));
    leaf(x);
    op_fails(hr_backward((hr_tensor *[]){x, x}, (hr_tensor *[]){g, g}, 2),
             HR_ERR_UNSUPPORTED, "f32 or bf16", "f16", NULL);
    hr_tensor_release(g);
    hr_tensor_release(x);
    op_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_gradients_of_bf16_are_one_of_bf16),
        cmocka_unit_test(a_buffer_of_f32_takes_gradients_of_bf16),
        cmocka_unit_test(a_sum_of_two_types_is_f32),
        cmocka_unit_test(a_gradient_inside_the_graph_has_its_tensors_type),
        cmocka_unit_test(a_leaf_has_it_in_f32),
        cmocka_unit_test(gradients_of_other_types_are_not_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
