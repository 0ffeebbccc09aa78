/* A step over pipeline stages, shared experts and data-parallel replicas has the gradients of the step on
 * one rank with the same sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/layout_case.h"

static void check_all(const layout_case *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        layout_case_check(&c[i]);
    layout_case_forget();
}

#define CHECK_ALL(cases) check_all((cases), sizeof(cases) / sizeof *(cases))

/* Nothing is added in another order. */
static void stages_change_no_bit(void **state)
{
    static const layout_case cases[] = {
        {"--pp 2 --overlap off", SAME_BITS},
        {"--pp 2 --overlap on", SAME_BITS},
        {"--pp 2 --vp 2 --overlap off", SAME_BITS},
        {"--pp 2 --vp 2 --overlap on --delay-wgrad off", SAME_BITS},
        {"--pp 4 --overlap off", SAME_BITS},
        {"--pp 4 --overlap on", SAME_BITS},
        {"--pp 1 --vp 2 --overlap on", SAME_BITS},
        {"--pp 2 --layout Et|ttttmL --mtp on", CLOSE},
        {"--pp 2 --layout Ettt|ttL", SAME_BITS},
        {"--pp 2 --layers 4 --dense-layers 4", SAME_BITS},
        {"--pp 2 --micro-batch-size 2", SAME_BITS},
    };
    CHECK_ALL(cases);
}

static void stages_join_with_experts_and_replicas(void **state)
{
    static const layout_case cases[] = {
        {"--ep 2", CLOSE},
        {"--dp 2", CLOSE},
        {"--ep 2 --dp 4", CLOSE},
        {"--pp 2 --ep 2", CLOSE},
        {"--pp 2 --dp 2", CLOSE},
        {"--pp 2 --vp 2 --ep 2", CLOSE},
        {"--pp 2 --ep 2 --dp 4", CLOSE},
        {"--pp 4 --ep 2 --overlap off", CLOSE},
    };
    CHECK_ALL(cases);
}

/* The losses that are told are not counted twice. */
static void forwards_that_are_done_again_change_no_bit(void **state)
{
    static const layout_case cases[] = {
        {"--pp 1 --recompute", SAME_BITS},
        {"--pp 2 --recompute", SAME_BITS},
        {"--pp 2 --schedule zbv --recompute", SAME_BITS},
        {"--pp 2 --ep 2 --recompute --overlap off", CLOSE},
        {"--pp 4 --recompute --mtp on --layout Ett|ttt|m|L", CLOSE},
    };
    CHECK_ALL(cases);
}

static void modes_of_loss_scale_and_dispatchers_hold_over_stages(void **state)
{
    static const layout_case cases[] = {
        {"--pp 2 --loss-scale-mode sum", SAME_BITS},
        {"--pp 2 --loss-scale-mode mean_token", SAME_BITS},
        {"--pp 2 --dp 2 --loss-scale-mode sum --mtp on", CLOSE},
        {"--pp 2 --ep 2 --dispatcher symmetric", CLOSE},
        {"--pp 2 --vp 2 --ep 2 --dispatcher symmetric --mtp on", CLOSE},
    };
    CHECK_ALL(cases);
}

static void what_several_stages_hold_stays_one(void **state)
{
    static const layout_case cases[] = {
        {"--pp 2 --tie-embeddings on", CLOSE},
        {"--pp 2 --vp 2 --tie-embeddings on --ep 2", CLOSE},
        {"--pp 2 --mtp on", CLOSE},
        {"--pp 2 --mtp on --tie-embeddings on --dp 2", CLOSE},
        {"--pp 4 --mtp on --layout Et|tt|tt|mL", CLOSE},
        {"--pp 4 --mtp on --layout Ett|ttt|m|L", CLOSE},
        {"--pp 4 --mtp on --tie-embeddings on --layout Ett|ttt|m|L --overlap off",
         CLOSE},
    };
    CHECK_ALL(cases);
}

static void schedules_differ_in_order_alone(void **state)
{
    static const layout_case cases[] = {
        {"--pp 2 --schedule gpipe --overlap off", SAME_BITS},
        {"--pp 2 --schedule zb-h1 --overlap off", SAME_BITS},
        {"--pp 2 --schedule zbv --overlap off", SAME_BITS},
        {"--pp 2 --schedule 1f1b --overlap on", SAME_BITS},
        {"--pp 2 --schedule dualpipev --overlap on", SAME_BITS},
        {"--pp 2 --schedule dualpipe --overlap on", CLOSE},
    };
    CHECK_ALL(cases);
}

/* Two steps on one layout, the third on another: all states went over. */
static void a_run_goes_on_in_any_other_layout(void **state)
{
    static const char *const layouts[] = {
        "--pp 1",
        "--pp 2 --vp 2 --overlap off",
        "--pp 4",
        "--pp 2 --schedule zbv",
        "--pp 2 --layout Ettt|ttL",
    };
    for (int i = 0; i < 5; i++)
        layout_case_resume(layouts[i], layouts[(i + 1) % 5], SAME_BITS);
    layout_case_resume("--pp 2 --ep 2", "--pp 1 --ep 4", CLOSE);
    layout_case_resume("--ep 2 --dp 4 --tie-embeddings on",
                       "--pp 4 --dp 2 --tie-embeddings on", CLOSE);
    layout_case_resume("--pp 2 --mtp on --tie-embeddings on --schedule dualpipe",
                       "--pp 4 --mtp on --tie-embeddings on --layout Ett|ttt|m|L",
                       CLOSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_change_no_bit),
        cmocka_unit_test(stages_join_with_experts_and_replicas),
        cmocka_unit_test(what_several_stages_hold_stays_one),
        cmocka_unit_test(forwards_that_are_done_again_change_no_bit),
        cmocka_unit_test(modes_of_loss_scale_and_dispatchers_hold_over_stages),
        cmocka_unit_test(schedules_differ_in_order_alone),
        cmocka_unit_test(a_run_goes_on_in_any_other_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
