/* The arithmetic of reductions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "group/reduce.h"
#include <math.h>
#include <string.h>

static void order_is_that_of_the_sources(void **state)
{
    float a = 1e8f, b = -1e8f, c = 1.0f, out;
    const void *abc[] = {&a, &b, &c}, *bca[] = {&b, &c, &a};
    hr__reduce(HR_F32, HR_SUM, &out, abc, 3, 1);
    assert_true(out == 1.0f);
    hr__reduce(HR_F32, HR_SUM, &out, bca, 3, 1);
    assert_true(out == 0.0f);
}

static void any_cut_gives_the_same_bits(void **state)
{
    enum { N = 5000 };
    static float x[3][N], whole[N], parts[N];
    const void *in[] = {x[0], x[1], x[2]};
    for (int i = 0; i < N; i++)
        for (int r = 0; r < 3; r++)
            x[r][i] = sinf((float)(i * 3 + r)) * expf((float)(i % 17));
    hr__reduce(HR_F32, HR_SUM, whole, in, 3, N);
    for (int at = 0, len = 1; at < N; at += len, len = len * 2 + 1) {
        const void *cut[] = {x[0] + at, x[1] + at, x[2] + at};
        hr__reduce(HR_F32, HR_SUM, parts + at, cut, 3, len < N - at ? len : N - at);
    }
    assert_memory_equal(whole, parts, sizeof whole);
}

static void the_result_may_replace_any_source(void **state)
{
    enum { N = 3000 };
    static int64_t x[3][N], want[N];
    for (int target = 0; target < 3; target++) {
        const void *in[] = {x[0], x[1], x[2]};
        for (int i = 0; i < N; i++) {
            for (int r = 0; r < 3; r++)
                x[r][i] = (int64_t)i * (r + 1) - 7;
            want[i] = (int64_t)i * 6 - 21;
        }
        hr__reduce(HR_I64, HR_SUM, x[target], in, 3, N);
        assert_memory_equal(x[target], want, sizeof want);
    }
}

static void integers_wrap_around(void **state)
{
    int32_t a = INT32_MAX, b = 1, out;
    int64_t c = INT64_MIN, d = -1, wide;
    const void *in32[] = {&a, &b}, *in64[] = {&c, &d};
    hr__reduce(HR_I32, HR_SUM, &out, in32, 2, 1);
    assert_int_equal(out, INT32_MIN);
    hr__reduce(HR_I64, HR_SUM, &wide, in64, 2, 1);
    assert_true(wide == INT64_MAX);
}

static void nan_wins_wherever_it_stands(void **state)
{
    float nan = NAN, one = 1.0f, out;
    for (int at = 0; at < 3; at++) {
        const void *in[] = {&one, &one, &one};
        in[at] = &nan;
        hr__reduce(HR_F32, HR_MAX, &out, in, 3, 1);
        assert_true(isnan(out));
        hr__reduce(HR_F32, HR_MIN, &out, in, 3, 1);
        assert_true(isnan(out));
    }
}

static void max_and_min_choose(void **state)
{
    int32_t a[] = {1, -5}, b[] = {-2, 4}, out[2];
    const void *in[] = {a, b};
    hr__reduce(HR_I32, HR_MAX, out, in, 2, 2);
    assert_true(out[0] == 1 && out[1] == 4);
    hr__reduce(HR_I32, HR_MIN, out, in, 2, 2);
    assert_true(out[0] == -2 && out[1] == -5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_that_of_the_sources),
        cmocka_unit_test(any_cut_gives_the_same_bits),
        cmocka_unit_test(the_result_may_replace_any_source),
        cmocka_unit_test(integers_wrap_around),
        cmocka_unit_test(nan_wins_wherever_it_stands),
        cmocka_unit_test(max_and_min_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
