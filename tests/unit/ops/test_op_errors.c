/* What operators say to wrong operands, before a launch and on the device. */
#include "op_check.h"

static hr_device *dev;
static hr_tensor *out, *out2, *out3;

static int open_one(void **state)
{
    dev = op_open(1);
    return 0;
}

static int close_one(void **state)
{
    op_close(dev);
    return 0;
}

static void shapes_that_disagree_are_both_named(void **state)
{
    hr_tensor *x = op_f32(OP_SHAPE(3, 5), NULL), *w = op_f32(OP_SHAPE(4, 6), NULL);
    hr_tensor *g = op_f32(OP_SHAPE(7), NULL), *w3 = op_f32(OP_SHAPE(2, 4, 6), NULL);
    op_fails(hr_op_linear(x, w, NULL, &out), HR_ERR_INVALID, "linear", "w is f32 [4,6]",
             "f32 [*,5]", NULL);
    assert_null(out);
    op_fails(hr_op_add(x, w, &out), HR_ERR_INVALID, "add", "b is f32 [4,6]",
             "f32 [3,5]", NULL);
    op_fails(hr_op_rmsnorm(x, g, 1e-5F, &out), HR_ERR_INVALID, "rmsnorm",
             "g is f32 [7]", "f32 [5]", NULL);
    op_fails(hr_op_grouped_linear(x, w3, (int64_t[]){0, 1, 3}, NULL, &out),
             HR_ERR_INVALID, "grouped_linear", "w is f32 [2,4,6]", "f32 [*,*,5]", NULL);
    op_fails(hr_op_swiglu(x, NULL, &out), HR_ERR_INVALID, "swiglu", "[3,5]", "even",
             NULL);
    op_fails(hr_op_swiglu(w, g, &out), HR_ERR_INVALID, "scale is f32 [7]", "f32 [4]",
             NULL);
    op_fails(hr_op_linear(x, w, NULL, NULL), HR_ERR_INVALID, "linear", "output", NULL);
    op_fails(hr_op_linear(x, NULL, NULL, &out), HR_ERR_INVALID, "w is NULL", NULL);
    op_fails(hr_op_embedding(w, x, &out), HR_ERR_INVALID, "ids is f32 [3,5]", "i32 [*]",
             NULL);
    hr_tensor_release(x);
    hr_tensor_release(w);
    hr_tensor_release(g);
    hr_tensor_release(w3);
}

static void offsets_that_do_not_fit_are_named(void **state)
{
    hr_tensor *x = op_f32(OP_SHAPE(5, 2), NULL), *w = op_f32(OP_SHAPE(2, 3, 2), NULL);
    op_fails(hr_op_grouped_linear(x, w, (int64_t[]){0, 2, 4}, NULL, &out),
             HR_ERR_INVALID, "from 0 to 4", "5 rows", NULL);
    op_fails(hr_op_grouped_linear(x, w, (int64_t[]){1, 2, 5}, NULL, &out),
             HR_ERR_INVALID, "from 1 to 5", NULL);
    op_fails(hr_op_grouped_linear(x, w, (int64_t[]){0, 6, 5}, NULL, &out),
             HR_ERR_INVALID, "fall from 6 to 5 at expert 1", NULL);
    op_fails(hr_op_grouped_linear(x, w, NULL, NULL, &out), HR_ERR_INVALID, "offsets",
             NULL);
    hr_tensor_release(x);
    hr_tensor_release(w);
}

static void attention_names_heads_and_sequences(void **state)
{
    hr_tensor *x = op_f32(OP_SHAPE(6, 24), NULL);
    op_fails(hr_op_attention(x, 3, 3, 1e4F, &out), HR_ERR_INVALID, "[6,24]", "3 heads",
             NULL);
    op_fails(hr_op_attention(x, 0, 3, 1e4F, &out), HR_ERR_INVALID, "0 heads", NULL);
    op_fails(hr_op_attention(x, 2, 4, 1e4F, &out), HR_ERR_INVALID, "6 rows", "4 tokens",
             NULL);
    op_fails(hr_op_attention(x, 2, 0, 1e4F, &out), HR_ERR_INVALID, "0 tokens", NULL);
    op_fails(hr_op_attention(x, 2, 3, 0, &out), HR_ERR_INVALID, "rope_base", NULL);
    hr_tensor_release(x);
}

static void router_names_top_k_and_sequences(void **state)
{
    hr_tensor *x = op_f32(OP_SHAPE(6, 4), NULL);
    hr_router_opts o = {HR_INIT(hr_router_opts), .top_k = 5};
    op_fails(hr_op_router(x, &o, &out, &out2), HR_ERR_INVALID, "top_k is 5",
             "4 experts", NULL);
    assert_null(out);
    assert_null(out2);
    o.top_k = 0;
    op_fails(hr_op_router(x, &o, &out, &out2), HR_ERR_INVALID, "top_k is 0", NULL);
    o = (hr_router_opts){HR_INIT(hr_router_opts), .top_k = 1, .aux_scale = 1,
                         .seq_len = 4};
    op_fails(hr_op_router(x, &o, &out, &out2), HR_ERR_INVALID, "6 rows", "4 tokens",
             NULL);
    op_fails(hr_op_router(x, NULL, &out, &out2), HR_ERR_INVALID, "opts is NULL", NULL);
    hr_tensor *idx = op_i32(OP_SHAPE(6, 1), NULL);
    op_fails(hr_op_sort_choices(idx, 0, &out, &out2, &out3), HR_ERR_INVALID,
             "experts is 0", NULL);
    op_fails(hr_op_permute(x, idx, idx, &out), HR_ERR_INVALID, "source is i32 [6,1]",
             "i32 [6]", NULL);
    hr_tensor_release(idx);
    hr_tensor_release(x);
}

static void freed_operands_are_named(void **state)
{
    hr_tensor *x = op_f32(OP_SHAPE(3, 5), NULL), *w = op_f32(OP_SHAPE(4, 5), NULL);
    hr_tensor_drop(w, NULL);
    op_fails(hr_op_linear(x, w, NULL, &out), HR_ERR_STATE, "linear: w", NULL);
    assert_string_equal(hr_last_reason(), "freed");
    hr_tensor_release(x);
    hr_tensor_release(w);
}

/* The device failed with that sentence; and works again once it is reset. */
static void device_says(const char *a, const char *b)
{
    op_fails(hr_device_synchronize(dev), HR_ERR_INVALID, a, b, NULL);
    hr_device_reset(dev);
}

static void an_id_out_of_range_fails_the_device(void **state)
{
    hr_tensor *w = op_f32(OP_SHAPE(4, 3), NULL);
    hr_tensor *ids = op_i32(OP_SHAPE(3), (int32_t[]){0, 3, 4});
    op_ok(hr_op_embedding(w, ids, &out));
    device_says("embedding: ids[2] is 4", "0..3");
    hr_tensor_release(out);
    hr_tensor_release(ids);
    ids = op_i32(OP_SHAPE(1), (int32_t[]){-1});
    op_ok(hr_op_embedding(w, ids, &out));
    device_says("ids[0] is -1", "0..3");
    hr_tensor_release(out);
    hr_tensor_release(ids);
    hr_tensor_release(w);
}

static void a_target_out_of_range_fails_the_device(void **state)
{
    hr_tensor *x = op_f32(OP_SHAPE(2, 3), NULL);
    hr_tensor *targets = op_i32(OP_SHAPE(2), (int32_t[]){-1, 3});
    op_ok(hr_op_cross_entropy(x, targets, 1, &out));
    device_says("cross_entropy: targets[1] is 3", "-1..2");
    hr_tensor_release(out);
    hr_tensor_release(targets);
    hr_tensor_release(x);
}

static void a_choice_or_slot_out_of_range_fails_the_device(void **state)
{
    hr_tensor *x = op_f32(OP_SHAPE(2, 3), NULL);
    hr_tensor *idx = op_i32(OP_SHAPE(2, 1), (int32_t[]){1, 7});
    hr_tensor *source = op_i32(OP_SHAPE(2), (int32_t[]){0, 2});
    op_ok(hr_op_sort_choices(idx, 7, &out, &out2, &out3));
    device_says("sort_choices: index[1] is 7", "0..6");
    hr_tensor_release(out);
    hr_tensor_release(out2);
    hr_tensor_release(out3);
    op_ok(hr_op_permute(x, source, idx, &out));
    device_says("source[1] is 2", "0..1");
    hr_tensor_release(out);
    op_ok(hr_op_unpermute(x, source, idx, &out));
    device_says("slot[1] is 7", "0..1");
    hr_tensor_release(out);
    hr_tensor_release(source);
    hr_tensor_release(idx);
    hr_tensor_release(x);
}

static void no_memory_leaves_no_output(void **state)
{
    hr_device *small;
    op_ok(hr_device_open(
        "host", &(hr_device_opts){HR_INIT(hr_device_opts), .memory = 1 << 16}, &small));
    hr_device_set_current(small);
    hr_tensor *x = op_f32(OP_SHAPE(64, 64), NULL), *w = op_f32(OP_SHAPE(512, 8), NULL);
    hr_tensor *w8 = op_f32(OP_SHAPE(8, 64), NULL);
    assert_int_equal(hr_op_rmsnorm(x, w8, 1, &out), HR_ERR_INVALID);
    hr_tensor *y;
    op_ok(hr_op_add(x, x, &y));
    assert_int_equal(hr_op_add(x, x, &out), HR_ERR_NOMEM);
    assert_null(out);
    hr_tensor_release(y);
    hr_tensor_release(w8);
    hr_tensor_release(w);
    hr_tensor_release(x);
    op_close(small);
    hr_device_set_current(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_that_disagree_are_both_named),
        cmocka_unit_test(offsets_that_do_not_fit_are_named),
        cmocka_unit_test(attention_names_heads_and_sequences),
        cmocka_unit_test(router_names_top_k_and_sequences),
        cmocka_unit_test(freed_operands_are_named),
        cmocka_unit_test(an_id_out_of_range_fails_the_device),
        cmocka_unit_test(a_target_out_of_range_fails_the_device),
        cmocka_unit_test(a_choice_or_slot_out_of_range_fails_the_device),
        cmocka_unit_test(no_memory_leaves_no_output),
    };
    return cmocka_run_group_tests(tests, open_one, close_one);
}
