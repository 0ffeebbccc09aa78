/* The generators: over all small sizes what they accept is sound, and what they refuse is refused
 * with the reason and with numbers that do work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>

static hr_generate_opts sizes(int p, int v, int m)
{
    return (hr_generate_opts){HR_INIT(hr_generate_opts), .ranks = p, .chunks = v,
                              .microbatches = m};
}

/* What follows "nearest that work(s): " is accepted. */
static void nearest_works(const char *name, hr_generate_opts o)
{
    const char *say = strstr(hr_last_error(), "; nearest that work");
    hr_schedule *s = NULL;
    if (say == NULL)
        return;
    int *field = strstr(say, "ranks") ? &o.ranks : &o.microbatches;
    *field = atoi(strchr(say, ':') + 1);
    if (hr_schedule_generate(name, &o, &s) < 0)
        fail_msg("%s", hr_last_error());
    hr_schedule_destroy(s);
}

static int try_sizes(const char *name, hr_generate_opts o)
{
    hr_schedule *s = NULL;
    hr_error_clear();
    if (hr_schedule_generate(name, &o, &s) < 0) {
        assert_null(s);
        assert_string_equal(hr_last_reason(), "schedule_refused");
        char sentence[400];
        snprintf(sentence, sizeof sentence, "%s", hr_last_error());
        if (strstr(sentence, " chunk") == NULL ||
            strstr(sentence, " microbatches") == NULL)
            fail_msg("'%s' does not name the sizes", sentence);
        nearest_works(name, o);
        return 0;
    }
    if (hr_schedule_check(s, NULL, NULL) < 0)
        fail_msg("%s p %d v %d m %d group %d: %s", name, o.ranks, o.chunks,
                 o.microbatches, o.group, hr_last_error());
    hr_schedule_destroy(s);
    return 1;
}

static void all_small_sizes_are_sound_or_refused(void **state)
{
    const char *name;
    for (int i = 0; (name = hr_schedule_name(i)) != NULL; i++) {
        int accepted = 0;
        for (int p = 1; p <= 8; p++)
            for (int v = 1; v <= 4; v++)
                for (int m = 1; m <= 16; m++)
                    accepted += try_sizes(name, sizes(p, v, m));
        if (accepted == 0)
            fail_msg("%s accepts nothing", name);
    }
}

static void groups_of_any_size_are_sound_or_refused(void **state)
{
    static const char *const names[] = {"interleaved", "combined", "interleaved-zb",
                                        "grouped", "forward-only"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int p = 1; p <= 5; p++)
            for (int v = 1; v <= 3; v++)
                for (int m = 1; m <= 11; m++)
                    for (int g = 1; g <= m; g++) {
                        hr_generate_opts o = sizes(p, v, m);
                        o.group = g;
                        try_sizes(names[i], o);
                    }
}

static void a_refusal_says_what_would_work(void **state)
{
    hr_schedule *s = NULL;
    hr_generate_opts o = sizes(4, 1, 7);
    assert_int_equal(hr_schedule_generate("dualpipe", &o, &s), HR_ERR_INVALID);
    assert_string_equal(
        hr_last_error(),
        "dualpipe with 4 ranks, 1 chunks a rank, 7 microbatches: it wants "
        "an even number of ranks, an even number of microbatches, two a "
        "rank or more; nearest that works: 8 microbatches");
    o = sizes(3, 1, 8);
    assert_int_equal(hr_schedule_generate("dualpipe", &o, &s), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "; nearest that work: 2 or 4 ranks"));
    o = sizes(4, 3, 8);
    assert_int_equal(hr_schedule_generate("zbv", &o, &s), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "it has 2 chunks a rank"));
    o = sizes(4, 3, 5);
    o.group = 4;
    assert_int_equal(hr_schedule_generate("interleaved", &o, &s), HR_ERR_INVALID);
    assert_non_null(
        strstr(hr_last_error(), "; nearest that work: 4 or 8 microbatches"));
}

static void odd_sizes_and_names_are_refused(void **state)
{
    static const int bad[][3] = {{0, 1, 4},    {-1, 1, 4},      {4, -1, 4},
                                 {4, 1, 0},    {1000000, 1, 4}, {4, 1, 1000000000},
                                 {4, 20000, 4}};
    hr_schedule *s = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        hr_generate_opts o = sizes(bad[i][0], bad[i][1], bad[i][2]);
        assert_int_equal(hr_schedule_generate("interleaved", &o, &s), HR_ERR_INVALID);
        assert_string_equal(hr_last_reason(), "schedule_size");
        assert_null(s);
    }
    hr_generate_opts o = sizes(4, 1, 4);
    assert_int_equal(hr_schedule_generate("1f2b", &o, &s), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "schedule_name");
    assert_non_null(strstr(hr_last_error(), " gpipe"));
    assert_null(hr_schedule_name(-1));
}

/* Small groups hold less; a group that never fills is no loop without end. */
static void groups_below_the_ranks_hold_less(void **state)
{
    int held[2];
    for (int k = 0; k < 2; k++) {
        hr_schedule *s = NULL;
        hr_figures *f = NULL;
        hr_generate_opts o = sizes(8, 3, 32);
        o.group = k ? 8 : 4;
        assert_int_equal(hr_schedule_generate("grouped", &o, &s), HR_OK);
        assert_int_equal(hr_schedule_simulate(s, NULL, &f), HR_OK);
        held[k] = f->rank[0].peak_act;
        hr_figures_destroy(f);
        hr_schedule_destroy(s);
    }
    assert_int_equal(held[0], 16);
    assert_int_equal(held[1], 24);
    hr_generate_opts o = sizes(4, 3, 5);
    o.group = 1 << 30;
    assert_int_equal(try_sizes("grouped", o), 1);
}

/* In the steady state of the combined schedule each forward shares a slot with a backward. */
static void combined_pairs_every_forward_after_the_first(void **state)
{
    hr_schedule *s = NULL;
    hr_generate_opts o = sizes(2, 2, 4);
    char *text = NULL;
    assert_int_equal(hr_schedule_generate("combined", &o, &s), HR_OK);
    assert_int_equal(hr_schedule_print_csv(s, &text), HR_OK);
    text[strcspn(text, "\r")] = '\0';
    assert_string_equal(text,
                        "0F0,0F1,2F0,2F1,0F2,(0F3;2B0)OVERLAP_F_B,(2F2;2B1)OVERLAP_"
                        "F_B,(2F3;0B0)OVERLAP_F_B,0B1,2B2,2B3,0B2,0B3");
    free(text);
    hr_schedule_destroy(s);
}

static void a_limit_of_activations_is_kept(void **state)
{
    static const char *const names[] = {"zb-h1",  "zb-h2", "zbv",
                                        "v-half", "v-min", "1f1b-v"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int p = 1; p <= 6; p++)
            for (int limit = 2; limit <= 2 * p + 2; limit++) {
                hr_schedule *s = NULL;
                hr_generate_opts o = sizes(p, 0, 9);
                hr_check_opts within = {HR_INIT(hr_check_opts), .max_act = limit};
                o.max_act = limit;
                if (hr_schedule_generate(names[i], &o, &s) < 0 ||
                    hr_schedule_check(s, &within, NULL) < 0)
                    fail_msg("%s p %d: %s", names[i], p, hr_last_error());
                hr_schedule_destroy(s);
            }
}

/* Pieces of a sequence go back from the last; what is made of the schedule knows of them. */
static void sequences_come_in_pieces(void **state)
{
    hr_schedule *s = NULL, *lowered = NULL;
    hr_schedule_shape shape;
    hr_generate_opts o = sizes(1, 1, 2);
    char *text = NULL;
    o.pieces = 3;
    assert_int_equal(hr_schedule_generate("seq-1f1b", &o, &s), HR_OK);
    hr_schedule_get_shape(s, &shape);
    assert_int_equal(shape.microbatches, 6);
    assert_int_equal(shape.pieces, 3);
    assert_int_equal(hr_schedule_lower(s, NULL, &lowered), HR_OK);
    hr_schedule_get_shape(lowered, &shape);
    assert_int_equal(shape.pieces, 3);
    hr_schedule_destroy(lowered);
    assert_int_equal(hr_schedule_print_csv(s, &text), HR_OK);
    assert_string_equal(text, "0F0,0F1,0F2,0B2,0F3,0B1,0F4,0B0,0F5,0B5,0B4,0B3\r\n");
    free(text);
    hr_schedule_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_small_sizes_are_sound_or_refused),
        cmocka_unit_test(groups_of_any_size_are_sound_or_refused),
        cmocka_unit_test(a_refusal_says_what_would_work),
        cmocka_unit_test(odd_sizes_and_names_are_refused),
        cmocka_unit_test(groups_below_the_ranks_hold_less),
        cmocka_unit_test(combined_pairs_every_forward_after_the_first),
        cmocka_unit_test(a_limit_of_activations_is_kept),
        cmocka_unit_test(sequences_come_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
