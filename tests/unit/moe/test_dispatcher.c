/* What the dispatcher computes, against loops in double, for every shape of routing; users' trouble 3,
 * an expert rank without tokens, among them: outputs right, gradients of idle experts zeros and not
 * absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/moe/moe_runs.h"
#include <stdio.h>

static moe_case make_case(int ranks, int experts, int top_k)
{
    moe_case c = {.ranks = ranks,
                  .experts = experts,
                  .top_k = top_k,
                  .width = 6,
                  .hidden = 5,
                  .tokens = {7, 4, 9, 3},
                  .choose = choose_spread};
    return c;
}

/* Runs the case and leaves the result, for the caller to destroy. */
static moe_result *run_to_result(const moe_case *c, run_order order, int two_streams)
{
    moe_run run = {
        .c = c, .order = order, .two_streams = two_streams, .result = result_create(c)};

    assert_non_null(run.result);
    hr_status st = run_case(&run);
    if (st < 0)
        print_error("%s: %s\n", hr_status_name(st), hr_last_error());
    assert_int_equal(st, HR_OK);
    return run.result;
}

static void expect_plain_result_of(const moe_case *c)
{
    static const run_order orders[] = {RUN_WHOLE, RUN_SERIAL, RUN_INTERLEAVED};
    moe_result *plain = result_create(c);

    assert_non_null(plain);
    plain_moe(c, plain);
    for (int i = 0; i < 3; i++) {
        moe_result *r = run_to_result(c, orders[i], orders[i] == RUN_INTERLEAVED);
        double d = result_distance(plain, r);
        if (!(d < 2e-5))
            print_error("%d ranks, %d experts, kind %d, order %d: off by %g\n",
                        c->ranks, c->experts, (int)c->kind, i, d);
        assert_true(d < 2e-5);
        result_destroy(r);
    }
    result_destroy(plain);
}

/* For either kind of dispatcher. */
static void expect_plain_result(const moe_case *c)
{
    moe_case symmetric = *c;

    expect_plain_result_of(c);
    symmetric.kind = HR_MOE_SYMMETRIC;
    expect_plain_result_of(&symmetric);
}

static void equals_plain_layer_on_one_two_and_four_ranks(void **state)
{
    static const int layouts[][3] = {{1, 4, 2}, {2, 4, 2}, {4, 8, 3},
                                     {4, 4, 1}, {2, 2, 2}, {1, 1, 1}};

    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        moe_case c = make_case(layouts[i][0], layouts[i][1], layouts[i][2]);
        expect_plain_result(&c);
    }
}

static void pain_3_all_tokens_go_to_the_experts_of_one_rank(void **state)
{
    moe_case c = make_case(2, 4, 2);

    c.choose = choose_first_rank;
    expect_plain_result(&c);
    c = make_case(4, 8, 2);
    c.choose = choose_last;
    expect_plain_result(&c);
}

static void pain_3_all_tokens_come_from_one_rank(void **state)
{
    moe_case c = make_case(2, 4, 2);

    c.tokens[0] = 0;
    expect_plain_result(&c);
    c.tokens[0] = 5;
    c.tokens[1] = 0;
    c.choose = choose_first_rank; /* rank 1 sends nothing and gets nothing */
    expect_plain_result(&c);
}

static void pain_3_there_are_no_tokens_at_all(void **state)
{
    moe_case c = make_case(4, 8, 2);

    for (int r = 0; r < 4; r++)
        c.tokens[r] = 0;
    expect_plain_result(&c);
    c.ranks = 1;
    expect_plain_result(&c);
}

static void expect_same_bits(moe_case c)
{
    moe_result *first = run_to_result(&c, RUN_SERIAL, 0);

    for (int kind = HR_MOE_ALLTOALL; kind <= HR_MOE_SYMMETRIC; kind++) {
        c.kind = (hr_moe_kind)kind;
        for (int two_streams = 0; two_streams < 2; two_streams++) {
            moe_result *serial = run_to_result(&c, RUN_SERIAL, two_streams);
            moe_result *mixed = run_to_result(&c, RUN_INTERLEAVED, two_streams);

            assert_true(result_same_bits(first, serial));
            assert_true(result_same_bits(first, mixed));
            result_destroy(serial);
            result_destroy(mixed);
        }
    }
    result_destroy(first);
}

static void neither_overlap_nor_the_kind_changes_a_bit(void **state)
{
    expect_same_bits(make_case(4, 8, 3));
}

/* An odd number of numbers, so that there is a gap before what follows the rows in a buffer. Numbers
 * reach 4, and each of some five roundings may add 4 * 2^-9 to them; a row in a wrong place is off by 1. */
static void rows_of_bf16_travel_as_they_are(void **state)
{
    moe_case c = make_case(3, 9, 3);
    moe_result *plain;

    c.type = HR_BF16;
    c.width = 5;
    plain = result_create(&c);
    assert_non_null(plain);
    plain_moe(&c, plain);
    expect_same_bits(c);
    moe_result *r = run_to_result(&c, RUN_WHOLE, 0);
    double d = result_distance(plain, r);
    if (!(d < 0.08))
        print_error("off by %g\n", d);
    assert_true(d < 0.08);
    result_destroy(r);
    result_destroy(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_plain_layer_on_one_two_and_four_ranks),
        cmocka_unit_test(pain_3_all_tokens_go_to_the_experts_of_one_rank),
        cmocka_unit_test(pain_3_all_tokens_come_from_one_rank),
        cmocka_unit_test(pain_3_there_are_no_tokens_at_all),
        cmocka_unit_test(neither_overlap_nor_the_kind_changes_a_bit),
        cmocka_unit_test(rows_of_bf16_travel_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
