/* Lowering to communication: what comes out is sound, in order, and always the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>

static hr_schedule *generate(const char *name, int p, int v, int m)
{
    hr_schedule *s = NULL;
    hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = p, .chunks = v,
                          .microbatches = m};
    return hr_schedule_generate(name, &o, &s) < 0 ? NULL : s;
}

static hr_schedule *lower(const hr_schedule *s, bool shards)
{
    hr_schedule *low = NULL;
    hr_lower_opts o = {HR_INIT(hr_lower_opts), .shards = shards};
    if (hr_schedule_lower(s, &o, &low) < 0)
        fail_msg("%s", hr_last_error());
    return low;
}

static void a_send_stands_behind_its_value(void **state)
{
    hr_schedule *s = generate("1f1b", 2, 1, 2);
    hr_schedule *low = lower(s, false);
    char *text = NULL;
    assert_int_equal(hr_schedule_print_csv(low, &text), HR_OK);
    assert_string_equal(
        text, "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\r\n"
              "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\r\n");
    free(text);
    hr_schedule_destroy(low);
    hr_schedule_destroy(s);
}

/* Between two ranks, the k-th receive of a channel is for the k-th send. */
static void check_order(const hr_schedule *low, int from, int to, int send_kind)
{
    size_t n[2];
    const hr_action *x = hr_schedule_order(low, from, &n[0]);
    const hr_action *y = hr_schedule_order(low, to, &n[1]);
    int step = send_kind == HR_ACTION_SEND_F ? 1 : -1;
    size_t j = 0;
    for (size_t i = 0; i < n[0]; i++) {
        if (x[i].kind != send_kind ||
            hr_schedule_rank_of(low, x[i].stage + step, x[i].microbatch) != to)
            continue;
        while (j < n[1] &&
               (y[j].kind != send_kind + 1 ||
                hr_schedule_rank_of(low, y[j].stage - step, y[j].microbatch) != from))
            j++;
        assert_true(j < n[1]);
        assert_int_equal(y[j].stage, x[i].stage + step);
        assert_int_equal(y[j].microbatch, x[i].microbatch);
        j++;
    }
}

static void every_generator_lowers_to_a_sound_schedule(void **state)
{
    const char *name;
    for (int i = 0; (name = hr_schedule_name(i)) != NULL; i++)
        for (int p = 1; p <= 5; p++)
            for (int v = 1; v <= 4; v++)
                for (int m = 1; m <= 12; m += 1 + (m > 4)) {
                    hr_schedule *s = generate(name, p, v, m);
                    hr_schedule *low = s ? lower(s, i % 2 == 0) : NULL;
                    if (low && hr_schedule_check(low, NULL, NULL) < 0)
                        fail_msg("%s p %d v %d m %d: %s", name, p, v, m,
                                 hr_last_error());
                    for (int r = 0; low && r < p * p; r++) {
                        check_order(low, r / p, r % p, HR_ACTION_SEND_F);
                        check_order(low, r / p, r % p, HR_ACTION_SEND_B);
                    }
                    hr_schedule_destroy(low);
                    hr_schedule_destroy(s);
                }
}

static void gradients_are_reduced_behind_the_last(void **state)
{
    hr_schedule *s = generate("interleaved-zb", 2, 2, 4);
    hr_schedule *low = lower(s, true);
    size_t n;
    int reduced = 0;
    const hr_action *a = hr_schedule_order(low, 1, &n);
    for (size_t i = 0; i < n; i++) {
        if (a[i].kind != HR_ACTION_REDUCE_GRAD)
            continue;
        reduced++;
        assert_int_equal(a[i - 1].kind, HR_ACTION_W);
        assert_int_equal(a[i - 1].stage, a[i].stage);
    }
    assert_int_equal(reduced, 2);
    hr_schedule_destroy(low);
    hr_schedule_destroy(s);
}

static void costs_and_figures_stay(void **state)
{
    hr_schedule *s = generate("zbv", 3, 2, 6);
    hr_figures *f[2] = {NULL};
    hr_stage_cost cost = {.f = 3, .i = 5, .w = 2, .act_bytes = 7, .stash_bytes = 4};
    assert_int_equal(hr_schedule_set_cost(s, -1, &cost), HR_OK);
    assert_int_equal(hr_schedule_set_comm(s, 1, 0), HR_OK);
    hr_schedule *low = lower(s, true);
    assert_int_equal(hr_schedule_simulate(s, NULL, &f[0]), HR_OK);
    assert_int_equal(hr_schedule_simulate(low, NULL, &f[1]), HR_OK);
    assert_int_equal(f[0]->makespan, f[1]->makespan);
    assert_int_equal(f[0]->rank[1].peak_bytes, f[1]->rank[1].peak_bytes);
    hr_figures_destroy(f[0]);
    hr_figures_destroy(f[1]);
    hr_schedule_destroy(low);
    hr_schedule_destroy(s);
}

static void what_is_not_sound_is_not_lowered(void **state)
{
    static const char text[] = "0B0,0F0\n";
    hr_schedule *s = NULL;
    hr_schedule *low = NULL;
    assert_int_equal(hr_schedule_parse_csv(text, strlen(text), &s), HR_OK);
    assert_int_equal(hr_schedule_lower(s, NULL, &low), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "deadlock");
    hr_schedule_destroy(s);
    s = generate("gpipe", 2, 1, 2);
    hr_schedule *once = lower(s, false);
    assert_int_equal(hr_schedule_lower(once, NULL, &low), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "lowered");
    hr_schedule_destroy(once);
    hr_schedule_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_send_stands_behind_its_value),
        cmocka_unit_test(every_generator_lowers_to_a_sound_schedule),
        cmocka_unit_test(gradients_are_reduced_behind_the_last),
        cmocka_unit_test(costs_and_figures_stay),
        cmocka_unit_test(what_is_not_sound_is_not_lowered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
