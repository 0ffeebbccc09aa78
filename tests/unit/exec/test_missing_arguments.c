/* What of schedule.h, group.h and exec.h returns a status refuses a missing object, and a missing
 * place for its result, and says which. Getters take objects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "headrace/exec.h"

static void is_refused(hr_status st, const char *call, int line)
{
    if (st != HR_ERR_INVALID || hr_last_error()[0] == '\0')
        fail_msg("line %d: %s gives %s", line, call,
                 st < 0 ? hr_last_error() : "no error");
}
#define REFUSED(call) is_refused((call), #call, __LINE__)

/* The same, and what comes out is nothing. */
#define REFUSED_OUT(call, out)                                                         \
    do {                                                                               \
        REFUSED(call);                                                                 \
        assert_null(out);                                                              \
    } while (0)

static const hr_generate_opts sizes = {HR_INIT(hr_generate_opts), .ranks = 2,
                                       .microbatches = 4};
static const hr_stage_cost cost;

static hr_schedule *some_schedule(void)
{
    hr_schedule *s;
    assert_int_equal(hr_schedule_generate("1f1b", &sizes, &s), HR_OK);
    return s;
}

static void a_schedule_is_needed(void **state)
{
    const hr_action a = {0};
    hr_schedule *out = (hr_schedule *)&out;
    hr_figures *figures = (hr_figures *)&figures;
    char *text = (char *)&text;
    int64_t ticks;
    int pairs;
    REFUSED_OUT(hr_schedule_create(NULL, &out), out);
    REFUSED(hr_schedule_append(NULL, 0, &a, 1));
    REFUSED(hr_schedule_set_cost(NULL, -1, &cost));
    REFUSED(hr_schedule_set_comm(NULL, 0, 0));
    REFUSED(hr_schedule_set_latency(NULL, 0));
    REFUSED_OUT(hr_schedule_parse(NULL, 3, &out), out);
    REFUSED_OUT(hr_schedule_parse_csv(NULL, 3, &out), out);
    REFUSED_OUT(hr_schedule_print(NULL, &text), text);
    REFUSED_OUT(hr_schedule_print_csv(NULL, &text), text);
    REFUSED(hr_schedule_check(NULL, NULL, NULL));
    REFUSED_OUT(hr_schedule_simulate(NULL, NULL, &figures), figures);
    REFUSED(hr_schedule_bound(NULL, &ticks));
    REFUSED_OUT(hr_schedule_generate(NULL, &sizes, &out), out);
    REFUSED_OUT(hr_schedule_generate("1f1b", NULL, &out), out);
    REFUSED_OUT(hr_schedule_merge_pairs(NULL, &out, &pairs), out);
    REFUSED_OUT(hr_schedule_lower(NULL, NULL, &out), out);
    REFUSED_OUT(hr_schedule_optimise(NULL, &out, NULL), out);
    hr_schedule_destroy(NULL);
    hr_figures_destroy(NULL);
}

static void what_a_schedule_is_given_and_where_to_put_its_results(void **state)
{
    const hr_optimise_opts optimise = {HR_INIT(hr_optimise_opts)};
    hr_schedule *s = some_schedule(), *out;
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
    int n;
    hr_schedule_get_shape(s, &shape);
    REFUSED(hr_schedule_create(&shape, NULL));
    REFUSED(hr_schedule_append(s, 0, NULL, 1));
    REFUSED(hr_schedule_set_cost(s, -1, NULL));
    REFUSED(hr_schedule_parse("headrace schedule 1\n", 20, NULL));
    REFUSED(hr_schedule_parse_csv("0F0", 3, NULL));
    REFUSED(hr_schedule_print(s, NULL));
    REFUSED(hr_schedule_print_csv(s, NULL));
    REFUSED(hr_schedule_simulate(s, NULL, NULL));
    REFUSED(hr_schedule_bound(s, NULL));
    REFUSED(hr_schedule_generate("1f1b", &sizes, NULL));
    REFUSED(hr_schedule_merge_pairs(s, NULL, &n));
    REFUSED(hr_schedule_merge_pairs(s, &out, NULL));
    REFUSED(hr_schedule_lower(s, NULL, NULL));
    REFUSED(hr_schedule_optimise(&optimise, NULL, NULL));
    REFUSED(hr_get_forward_backward_func(2, 1, NULL));
    REFUSED(hr_get_schedule_table(4, 2, 2, 0, NULL, &n));
    REFUSED(hr_get_schedule_table(4, 2, 2, 0, &n, NULL));
    REFUSED(hr_schedule_print(NULL, NULL));
    assert_string_equal(hr_last_reason(), "no_argument");
    assert_string_equal(hr_last_error(), "hr_schedule_print: `out` is NULL");
    hr_schedule_destroy(s);
}

static void a_layout_is_needed(void **state)
{
    const hr_layout_opts opts = {HR_INIT(hr_layout_opts), .layers = 4, .ranks = 2};
    hr_layout *l = (hr_layout *)&l;
    hr_layout_part part;
    char *text = (char *)&text;
    int n, m;
    REFUSED(hr_layout_split(&opts, NULL));
    REFUSED_OUT(hr_layout_split(NULL, &l), l);
    REFUSED(hr_layout_parse("Et|tL", 5, &opts, NULL));
    REFUSED_OUT(hr_layout_parse("Et|tL", 5, NULL, &l), l);
    REFUSED_OUT(hr_layout_parse(NULL, 5, &opts, &l), l);
    REFUSED_OUT(hr_layout_print(NULL, &text), text);
    REFUSED(hr_layout_get(NULL, 0, &part));
    REFUSED(hr_layout_find(NULL, 0, &n, &m));
    hr_layout_destroy(NULL);
    assert_int_equal(hr_layout_split(&opts, &l), HR_OK);
    REFUSED(hr_layout_print(l, NULL));
    REFUSED(hr_layout_get(l, 0, NULL));
    REFUSED(hr_layout_find(l, 0, NULL, &m));
    REFUSED(hr_layout_find(l, 0, &n, NULL));
    hr_layout_destroy(l);
}

static void a_group_is_needed(void **state)
{
    hr_group *g = (hr_group *)&g;
    hr_window *w = (hr_window *)&w;
    REFUSED(hr_local_run(1, NULL, NULL, NULL));
    REFUSED(hr_group_status(NULL));
    REFUSED(hr_job_reset(NULL));
    REFUSED_OUT(hr_group_create(NULL, NULL, 0, &g), g);
    REFUSED(hr_group_create(NULL, NULL, 0, NULL));
    REFUSED(hr_group_batch(NULL, NULL, 0, NULL));
    REFUSED(hr_all_to_all_v(NULL, NULL, NULL, NULL, NULL, 4, NULL));
    REFUSED(hr_all_reduce(NULL, NULL, NULL, 1, HR_F32, HR_SUM, NULL));
    REFUSED(hr_all_gather(NULL, NULL, NULL, 1, HR_F32, NULL));
    REFUSED(hr_reduce_scatter(NULL, NULL, NULL, 1, HR_F32, HR_SUM, NULL));
    REFUSED(hr_broadcast(NULL, NULL, 1, 0, NULL));
    REFUSED(hr_barrier(NULL, NULL));
    REFUSED_OUT(hr_window_create(NULL, 8, NULL, &w), w);
    REFUSED(hr_rows_store(NULL, NULL, NULL));
    REFUSED(hr_rows_load(NULL, NULL, NULL));
    hr_group_abort(NULL, HR_ERR_DEVICE);
    hr_group_set_label(NULL, NULL);
    hr_group_release(NULL);
    hr_window_destroy(NULL);
}

static void a_rank_layout_is_needed(void **state)
{
    hr_rank_layout l;
    hr_rank_groups g;
    char order[64];
    const int extent = 2;
    const bool mask = true;
    assert_int_equal(hr_rank_layout_init(&l, NULL), HR_OK);
    REFUSED(hr_rank_layout_init(NULL, NULL));
    REFUSED(hr_rank_layout_groups(NULL, "dp", &g));
    REFUSED(hr_rank_layout_groups(&l, NULL, &g));
    REFUSED(hr_rank_layout_groups(&l, "dp", NULL));
    REFUSED(hr_rank_groups_masked(2, NULL, &mask, 1, &g));
    REFUSED(hr_rank_groups_masked(2, &extent, NULL, 1, &g));
    REFUSED(hr_rank_groups_masked(2, &extent, &mask, 1, NULL));
    REFUSED(hr_rank_order_inject(NULL, "tp", order, sizeof order));
    REFUSED(hr_rank_order_inject("tp-dp", NULL, order, sizeof order));
    REFUSED(hr_rank_order_inject("tp-dp", "tp", NULL, sizeof order));
    REFUSED(hr_world_layout_create(NULL, NULL));
    hr_rank_groups_fini(NULL);
    hr_world_layout_destroy(NULL);
}

static void an_executor_is_needed(void **state)
{
    const hr_exec_opts opts = {HR_INIT(hr_exec_opts)};
    const hr_plan_stage_opts stage_opts = {HR_INIT(hr_plan_stage_opts)};
    const hr_grads_opts grads_opts = {HR_INIT(hr_grads_opts)};
    hr_schedule *s = some_schedule();
    hr_exec *e = (hr_exec *)&e;
    hr_program *p = (hr_program *)&p;
    hr_plan_stage *stage = (hr_plan_stage *)&stage;
    hr_grads *g = (hr_grads *)&g;
    REFUSED_OUT(hr_exec_create(NULL, &e), e);
    REFUSED_OUT(hr_exec_create(&opts, &e), e);
    REFUSED(hr_exec_create(&opts, NULL));
    REFUSED_OUT(hr_exec_load(NULL, s, &p), p);
    REFUSED(hr_exec_load(NULL, NULL, NULL));
    REFUSED(hr_exec_step(NULL, NULL, NULL, NULL));
    REFUSED_OUT(hr_plan_stage_create(NULL, &stage), stage);
    REFUSED_OUT(hr_plan_stage_create(&stage_opts, &stage), stage);
    REFUSED(hr_plan_stage_create(&stage_opts, NULL));
    REFUSED_OUT(hr_grads_create(NULL, &g), g);
    REFUSED_OUT(hr_grads_create(&grads_opts, &g), g);
    REFUSED(hr_grads_create(&grads_opts, NULL));
    REFUSED(hr_grads_reduce(NULL, 0));
    REFUSED(hr_grads_finish(NULL));
    REFUSED(hr_grads_gather(NULL));
    REFUSED(hr_grads_norm(NULL, NULL, NULL));
    hr_exec_destroy(NULL);
    hr_program_destroy(NULL);
    hr_plan_stage_destroy(NULL);
    hr_grads_destroy(NULL);
    hr_schedule_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schedule_is_needed),
        cmocka_unit_test(what_a_schedule_is_given_and_where_to_put_its_results),
        cmocka_unit_test(a_layout_is_needed),
        cmocka_unit_test(a_group_is_needed),
        cmocka_unit_test(a_rank_layout_is_needed),
        cmocka_unit_test(an_executor_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
