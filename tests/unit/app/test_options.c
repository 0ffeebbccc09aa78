/* Command lines of `headrace train`: what is taken, and that what is refused is named with the nearest
 * valid thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "nearest.h"
#include "option_spec.h"
#include "options.h"

static train_options o;

/* Splits `line` at blanks and parses it. */
static hr_status parse(const char *line)
{
    static char text[512];
    char *argv[32], *rest = NULL;
    int argc = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    hr_error_clear();
    return hr_app_options_train(argc, argv, &o);
}

static void refused(const char *line, const char *named, const char *nearest)
{
    assert_true(parse(line) < 0);
    if (!strstr(hr_last_error(), named) || !strstr(hr_last_error(), nearest))
        fail_msg("'%s' gives \"%s\", without '%s' or '%s'", line, hr_last_error(),
                 named, nearest);
}

static void no_option_gives_the_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse(""), HR_OK);
    assert_string_equal(o.data, "/usr/include");
    assert_string_equal(o.out, "build/demo");
    assert_int_equal(o.dp, o.ep);
    assert_int_equal(o.overlap, 1);
    assert_int_equal(o.global_batch_size, o.microbatches * o.micro_batch_size * o.dp);
    train_options d;
    hr_app_options_train_defaults(&d);
    assert_memory_equal(&d.model, &o.model, sizeof d.model);
    assert_float_equal(d.min_lr, o.min_lr, 0);
}

static void every_default_is_valid(void **state)
{
    (void)state;
    const option_table *tables[] = {&hr_app_train_table, &hr_app_sample_table,
                                    &hr_app_plan_table, &hr_app_info_table};
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < tables[t]->n; i++) {
            const option_spec *s = &tables[t]->spec[i];
            if (s->kind == OPTION_HEADING)
                continue;
            assert_int_equal(hr_app_option_set(s, s->name, s->fallback, NULL), HR_OK);
            assert_int_equal(hr_app_option_find(tables[t], s->name),
                             i); /* no name twice */
        }
}

static void values_follow_a_blank_or_an_equals_sign(void **state)
{
    (void)state;
    assert_int_equal(parse("--steps 7 --lr=0.5 --overlap off --check --dry-run "
                           "--seed=9007199254740992"),
                     HR_OK);
    assert_int_equal(o.steps, 7);
    assert_float_equal(o.lr, 0.5, 0);
    assert_int_equal(o.overlap, 0);
    assert_int_equal(o.check, 1);
    assert_int_equal(o.dry_run, 1);
    assert_true(o.seed == INT64_C(9007199254740992));
}

static void what_follows_from_others_is_filled_in(void **state)
{
    (void)state;
    assert_int_equal(parse("--ep 4 --global-batch-size 24 --micro-batch-size 2"),
                     HR_OK);
    assert_int_equal(o.dp, 4);
    assert_int_equal(o.microbatches, 3);
    assert_int_equal(parse("--lr 1e-4"), HR_OK);
    assert_float_equal(o.min_lr, 1e-5, 1e-12);
    assert_int_equal(parse("--steps 10"), HR_OK);
    assert_int_equal(o.warmup, 1);
}

static void an_unknown_option_names_the_nearest(void **state)
{
    (void)state;
    refused("--stpes 3", "--stpes", "--steps");
    refused("--micro-batches 3", "--micro-batches", "--microbatches");
    refused("--overlp=on", "--overlp", "--overlap");
    refused("-steps 3", "-steps", "--steps");
    refused("chekc", "chekc", "--check");
}

static void a_value_outside_its_range_names_the_nearest(void **state)
{
    (void)state;
    static const char *const positive[] = {
        "steps", "layers", "heads",       "experts",      "top-k", "expert-width",
        "seq",   "ep",     "dense-width", "microbatches", "keep",  "micro-batch-size"};
    char line[64];
    for (size_t i = 0; i < sizeof positive / sizeof positive[0]; i++) {
        snprintf(line, sizeof line, "--%s 0", positive[i]);
        refused(line, positive[i], "nearest valid value is 1");
        snprintf(line, sizeof line, "--%s -7", positive[i]);
        refused(line, "-7", "nearest valid value is 1");
    }
    refused("--seq 99999999999999999999999", "99999999999999999999999", "is 1048576");
    refused("--lr -3", "--lr -3", "is 1e-09");
    refused("--link-gbps inf", "--link-gbps inf", "is 1000000");
}

static void a_value_of_another_kind_is_refused(void **state)
{
    (void)state;
    refused("--steps many", "whole number", "'many'");
    refused("--steps 2.5", "whole number", "'2.5'");
    refused("--steps=", "whole number", "''");
    refused("--lr nan", "number", "'nan'");
    refused("--lr 1e-3x", "number", "'1e-3x'");
    refused("--overlap maybe", "'maybe'", "off, on");
    refused("--loss-scale-mode mean", "'mean'", "the nearest is");
    refused("--check=perhaps", "--check", "'perhaps'");
    refused("--steps", "--steps wants a value", "--steps N");
    refused("--steps --lr 1", "--steps wants a value", "--steps N");
    refused("--dispatcher symetric", "'symetric'", "'symmetric'");
    refused("--capacity-factor -1", "--capacity-factor", "nearest valid value is 0");
}

/* Whether this machine has it is found out where it is opened. */
static void device_is_one_of_the_backends(void **state)
{
    (void)state;
    assert_int_equal(parse("--device host"), HR_OK);
    assert_int_equal(parse("--device cuda"), HR_OK);
    assert_string_equal(o.device, "cuda");
    refused("--device cude", "'cude'", "the nearest is 'cuda'");
}

static void ranks_are_stages_times_replicas(void **state)
{
    (void)state;
    assert_int_equal(parse("--pp 4 --ep 2 --dp 8 --micro-batch-size 1"), HR_OK);
    assert_int_equal(o.global_batch_size, o.microbatches * 8);
    assert_int_equal(parse("--pp 4 --ep 2"), HR_OK);
    assert_int_equal(o.dp, 2);
    assert_int_equal(o.overlap_asked, 0);
    refused("--pp 0", "--pp 0", "is 1");
}

static void pairs_are_for_an_all_to_all_unless_asked_for(void **state)
{
    static const struct {
        const char *line;
        int overlap, asked;
    } t[] = {{"--ep 2", 1, 0},
             {"--ep 1", 0, 0},
             {"--ep 1 --dp 2", 0, 0},
             {"--ep 1 --overlap on", 1, 1},
             {"--overlap on --ep 2", 1, 1},
             {"--overlap off", 0, 0}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        assert_int_equal(parse(t[i].line), HR_OK);
        assert_int_equal(o.overlap, t[i].overlap);
        assert_int_equal(o.overlap_asked, t[i].asked);
    }
}

static void options_that_do_not_fit_together_are_refused(void **state)
{
    (void)state;
    refused("--experts 9 --ep 4", "--experts 9",
            "--ep 4 ranks; the nearest number that "
            "can is 8");
    refused("--experts 2 --ep 4", "--experts 2", "is 4");
    refused("--top-k 9 --experts 8", "--top-k 9", "is 8");
    refused("--width 100 --heads 3", "--width 100", "is 102");
    refused("--width 12 --heads 4", "--width 12", "is 8"); /* a head of 3 is odd */
    refused("--dense-layers 5 --layers 4", "--dense-layers 5", "is 4");
    refused("--mtp on --seq 1", "--mtp on", "--seq is 2");
    refused("--dp 3 --ep 2", "--dp 3", "is 2");
    refused("--pp 65 --dp 4", "--pp 65 x --dp 4", "is 64");
    refused("--global-batch-size 7 --micro-batch-size 1", "--global-batch-size 7",
            "is 6");
    refused("--global-batch-size 0 --micro-batch-size 1", "--global-batch-size 0",
            "is 2");
    refused("--global-batch-size 32 --microbatches 4 --micro-batch-size 1",
            "--global-batch-size 32", "is 8");
    refused("--min-lr 1 --lr 0.1", "--min-lr 1", "is 0.1");
    refused("--steps 10 --warmup 11", "--warmup 11", "is 10");
    refused("--seq 1048576 --microbatches 1048576 --micro-batch-size 1", "too large",
            "is 2047");
    refused("--data=", "--data is empty", "path");
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    (void)state;
    static char path[OPTION_PATH + 8];
    memset(path, 'x', sizeof path - 1);
    char *argv[] = {(char[]){"--data"}, path};
    assert_int_equal(hr_app_options_train(2, argv, &o), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "at most 4095"));
}

static void help_asks_to_run_nothing(void **state)
{
    (void)state;
    FILE *to = tmpfile();
    assert_non_null(to);
    hr_app_option_help(&hr_app_train_table, to);
    static char text[16384];
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = '\0';
    fclose(to);
    for (int i = 0; i < hr_app_train_table.n; i++)
        assert_non_null(strstr(text, hr_app_train_table.spec[i].name));
    option_set given;
    char *argv[] = {(char[]){"--nonsense"}, (char[]){"-h"}};
    assert_int_equal(hr_app_option_parse(&hr_app_train_table, 2, argv, &o, &given),
                     HR_PENDING);
}

static void distance_counts_edits(void **state)
{
    (void)state;
    assert_int_equal(hr_app_edit_distance("", ""), 0);
    assert_int_equal(hr_app_edit_distance("steps", "steps"), 0);
    assert_int_equal(hr_app_edit_distance("stpes", "steps"), 1);
    assert_int_equal(hr_app_edit_distance("", "abc"), 3);
    assert_int_equal(hr_app_edit_distance("kitten", "sitting"), 3);
    static char giant[4096];
    memset(giant, 'g', sizeof giant - 1);
    assert_true(hr_app_edit_distance(giant, "g") > 0);
    assert_int_equal(hr_app_nearest("x", NULL, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_option_gives_the_defaults),
        cmocka_unit_test(every_default_is_valid),
        cmocka_unit_test(values_follow_a_blank_or_an_equals_sign),
        cmocka_unit_test(what_follows_from_others_is_filled_in),
        cmocka_unit_test(an_unknown_option_names_the_nearest),
        cmocka_unit_test(a_value_outside_its_range_names_the_nearest),
        cmocka_unit_test(a_value_of_another_kind_is_refused),
        cmocka_unit_test(device_is_one_of_the_backends),
        cmocka_unit_test(ranks_are_stages_times_replicas),
        cmocka_unit_test(pairs_are_for_an_all_to_all_unless_asked_for),
        cmocka_unit_test(options_that_do_not_fit_together_are_refused),
        cmocka_unit_test(a_path_that_is_too_long_is_refused),
        cmocka_unit_test(help_asks_to_run_nothing),
        cmocka_unit_test(distance_counts_edits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
