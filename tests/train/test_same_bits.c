/* Overlap, delayed weight gradients and repetition change no bit of a run; the number of ranks changes
 * only the rounding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/run_compare.h"

static void overlap_changes_no_bit_on_1_rank(void **state)
{
    run_compare_bits(1, NULL);
}

static void overlap_changes_no_bit_on_2_ranks(void **state)
{
    run_compare_bits(2, NULL);
}

static void overlap_changes_no_bit_on_4_ranks(void **state)
{
    run_compare_bits(4, NULL);
}

static void ranks_agree_with_a_plain_model_without_nodes(void **state)
{
    for (int ep = 1; ep <= 4; ep *= 2)
        run_compare_plain(ep, NULL, 1e-5);
}

/* ---- no experts at all: the final norm comes after a dense layer ---------------------------- */

static void all_dense(train_options *o)
{
    o->model.dense_layers = o->model.layers;
}

static void overlap_changes_no_bit_of_a_dense_model(void **state)
{
    run_compare_bits(2, all_dense);
}

static void a_dense_model_agrees_with_a_plain_one(void **state)
{
    run_compare_plain(1, all_dense, 1e-6);
    run_compare_plain(2, all_dense, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_changes_no_bit_on_1_rank),
        cmocka_unit_test(overlap_changes_no_bit_on_2_ranks),
        cmocka_unit_test(overlap_changes_no_bit_on_4_ranks),
        cmocka_unit_test(ranks_agree_with_a_plain_model_without_nodes),
        cmocka_unit_test(overlap_changes_no_bit_of_a_dense_model),
        cmocka_unit_test(a_dense_model_agrees_with_a_plain_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
