/* Training with multi-token prediction: as exact as without, in plans as without any. (That it computes
 * the right thing: tests/reference.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/run_compare.h"
#include "support/whole_state.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void mtp(train_options *o)
{
    o->model.mtp = 1;
}

static void mtp_tied(train_options *o)
{
    o->model.mtp = o->model.tie_embeddings = 1; /* one matrix with four uses */
}

static void mtp_dense(train_options *o)
{
    o->model.mtp = 1;
    o->model.dense_layers = o->model.layers;
}

static void overlap_changes_no_bit_on_1_rank(void **state)
{
    run_compare_bits(1, mtp);
}

static void overlap_changes_no_bit_on_2_ranks(void **state)
{
    run_compare_bits(2, mtp);
}

static void overlap_changes_no_bit_on_4_ranks(void **state)
{
    run_compare_bits(4, mtp);
}

static void overlap_changes_no_bit_where_head_and_embedding_are_one(void **state)
{
    run_compare_bits(2, mtp_tied);
}

static void overlap_changes_no_bit_of_a_dense_model(void **state)
{
    run_compare_bits(2, mtp_dense);
}

static void ranks_agree_with_a_plain_model_without_nodes(void **state)
{
    for (int ep = 1; ep <= 4; ep *= 2)
        run_compare_plain(ep, mtp, 1e-5);
    run_compare_plain(2, mtp_tied, 1e-5);
    run_compare_plain(1, mtp_dense, 1e-6);
}

/* ---- scale of loss and gradients (users' troubles: "gradient scale depends on the layout") ---- */

/* The gradients of one step, by way of its first moments, in all of the file's tensors. */
static whole_state step_in_mode(loss_scale_mode mode, double aux_coef)
{
    train_options o;
    whole_state s = {0};
    train_case_init(&o, 2, 4, 1);
    mtp(&o);
    o.clip = 0;
    o.loss_scale = (int)mode;
    o.aux_coef = aux_coef;
    if (hr_app_train_steps(&o) < 0 || whole_state_read(o.out, &s) < 0)
        fail_msg("mode %d: %s", mode, hr_last_error());
    train_case_fini(&o);
    return s;
}

static bool is_moment(const char *name)
{
    size_t n = strlen(name), k = strlen(".adam_m");
    return n > k && strcmp(name + n - k, ".adam_m") == 0;
}

/* Every first moment of `b` is `scale` times that of `a`. */
static void copies(const whole_state *a, const whole_state *b, float scale)
{
    int moments = 0;
    for (int i = 0; i < a->n; i++) {
        const whole_tensor *t = &a->list[i], *u = whole_state_find(b, t->name);
        assert_non_null(u);
        assert_int_equal(u->count, t->count);
        if (!is_moment(t->name))
            continue;
        moments++;
        for (int64_t k = 0; k < t->count; k++)
            if (u->data[k] != scale * t->data[k])
                fail_msg("'%s'[%lld]: %g and %g", t->name, (long long)k,
                         (double)t->data[k], (double)u->data[k]);
    }
    assert_true(moments > 20);
}

/* 8 sequences of 16 tokens: all factors are powers of two, so the copies are exact. A sequence weighs
 * for the load-balance loss what 16 tokens weigh for the others. */
static void modes_of_loss_scale_give_scaled_copies_of_the_gradients(void **state)
{
    whole_state microbatch = step_in_mode(LOSS_MEAN_MICROBATCH, 0.01);
    whole_state token = step_in_mode(LOSS_MEAN_TOKEN, 0.01);
    whole_state sum = step_in_mode(LOSS_SUM, 0.16);
    copies(&microbatch, &token, 1);
    copies(&microbatch, &sum, 8 * 16);
    whole_state_fini(&microbatch);
    whole_state_fini(&token);
    whole_state_fini(&sum);
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* The first line of metrics. */
static json_t *metrics_of(train_options *o)
{
    size_t n;
    if (hr_app_train_steps(o) < 0)
        fail_msg("%s", hr_last_error());
    char *text = train_case_read(o, "metrics.jsonl", &n);
    assert_non_null(text);
    text[strcspn(text, "\n")] = '\0';
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    free(text);
    return j;
}

/* Of a run of one step, on sequences of which one position in two has a byte after the next. */
static double told(run_kind kind, loss_scale_mode mode, double coef, const char *key)
{
    train_options o;
    train_case_init(&o, 2, 2, 1);
    if (kind)
        kind(&o);
    o.loss_scale = (int)mode;
    o.mtp_coef = coef;
    o.model.seq = 2;
    json_t *j = metrics_of(&o), *v = json_object_get(j, key);
    double value = v ? json_number_value(v) : -1;
    json_decref(j);
    train_case_fini(&o);
    return value;
}

static void its_loss_is_told_in_nats_a_token_beside_the_main_one(void **state)
{
    double loss = told(NULL, LOSS_MEAN_TOKEN, 0.1, "loss");
    assert_true(told(mtp, LOSS_MEAN_TOKEN, 0.1, "loss") ==
                loss); /* it joins backward */
    assert_true(told(NULL, LOSS_MEAN_TOKEN, 0.1, "mtp_loss") == -1);
    double first = told(mtp, LOSS_MEAN_TOKEN, 0.1, "mtp_loss");
    print_message("loss %.4f, of multi-token prediction %.4f\n", loss, first);
    assert_true(first > 4 && first < 8); /* it knows nothing yet: about log 256 */
    double other[] = {told(mtp, LOSS_MEAN_TOKEN, 10, "mtp_loss"),
                      told(mtp, LOSS_SUM, 0.1, "mtp_loss"),
                      told(mtp, LOSS_MEAN_MICROBATCH, 0.1, "mtp_loss")};
    for (int i = 0; i < 3; i++)
        assert_true(other[i] > first * (1 - 1e-5) && other[i] < first * (1 + 1e-5));
}

/* ---- checkpoints ------------------------------------------------------------------------------- */

static void a_run_goes_on_from_its_checkpoint_to_the_bit(void **state)
{
    train_options whole, parts;
    size_t n, k;
    train_case_init(&whole, 2, 2, 4);
    train_case_init(&parts, 2, 2, 4);
    mtp(&whole);
    mtp(&parts);
    whole.min_lr = parts.min_lr =
        whole.lr; /* no cosine that knows the number of steps */
    parts.steps = 2;
    assert_int_equal(hr_app_train_steps(&whole), HR_OK);
    assert_int_equal(hr_app_train_steps(&parts), HR_OK);
    parts.steps = 4;
    parts.resume = 1;
    assert_int_equal(hr_app_train_steps(&parts), HR_OK);
    char *a = whole_state_bytes(whole.out, &n), *b = whole_state_bytes(parts.out, &k);
    assert_int_equal(n, k);
    assert_memory_equal(a, b, n);
    parts.model.mtp = 0;
    parts.steps = 5;
    assert_int_equal(hr_app_train_steps(&parts), HR_ERR_MISMATCH);
    assert_non_null(strstr(hr_last_error(), "--mtp on, but this run off"));
    free(a);
    free(b);
    train_case_fini(&whole);
    train_case_fini(&parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_changes_no_bit_on_1_rank),
        cmocka_unit_test(overlap_changes_no_bit_on_2_ranks),
        cmocka_unit_test(overlap_changes_no_bit_on_4_ranks),
        cmocka_unit_test(overlap_changes_no_bit_where_head_and_embedding_are_one),
        cmocka_unit_test(overlap_changes_no_bit_of_a_dense_model),
        cmocka_unit_test(ranks_agree_with_a_plain_model_without_nodes),
        cmocka_unit_test(modes_of_loss_scale_give_scaled_copies_of_the_gradients),
        cmocka_unit_test(its_loss_is_told_in_nats_a_token_beside_the_main_one),
        cmocka_unit_test(a_run_goes_on_from_its_checkpoint_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
