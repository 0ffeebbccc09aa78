/* Layouts: no layer is lost or twice, whatever the sizes; by hand they say what is wrong and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hr_layout_opts sizes(int ranks, int chunks, int layers)
{
    return (hr_layout_opts){HR_INIT(hr_layout_opts), .ranks = ranks, .chunks = chunks,
                            .layers = layers};
}

static hr_layout_part part_of(const hr_layout *l, int stage)
{
    hr_layout_part part;
    assert_int_equal(hr_layout_get(l, stage, &part), HR_OK);
    return part;
}

/* (rank, chunk, place) and layer name each other, in order; the rest stands once. */
static void whole(const hr_layout *l, int ranks, int layers)
{
    int seen = 0;
    int mtp = 0;
    int embeddings = 0;
    int losses = 0;
    for (int stage = 0; stage < hr_layout_stages(l); stage++) {
        hr_layout_part part = part_of(l, stage);
        assert_int_equal(part.chunk, stage / ranks);
        assert_int_equal(part.first_layer, seen);
        assert_int_equal(part.first_mtp, mtp);
        for (int k = 0; k < part.layers; k++) {
            int at;
            int local;
            assert_int_equal(hr_layout_find(l, seen + k, &at, &local), HR_OK);
            assert_int_equal(at, stage);
            assert_int_equal(local, k);
        }
        seen += part.layers;
        mtp += part.mtp;
        embeddings += part.embedding;
        losses += part.loss;
    }
    assert_int_equal(seen, layers);
    assert_int_equal(hr_layout_layers(l), layers);
    assert_int_equal(mtp, hr_layout_mtp(l));
    assert_int_equal(embeddings, 1);
    assert_int_equal(losses, 1);
}

/* Reading what was printed gives the same. */
static void printed_and_read(const hr_layout *l, const hr_layout_opts *o)
{
    char *text = NULL;
    char *again = NULL;
    hr_layout *read = NULL;
    hr_layout_opts p = *o;
    p.uneven = false;
    assert_int_equal(hr_layout_print(l, &text), HR_OK);
    if (hr_layout_parse(text, strlen(text), &p, &read) < 0)
        fail_msg("'%s': %s", text, hr_last_error());
    whole(read, o->ranks, o->layers);
    assert_int_equal(hr_layout_print(read, &again), HR_OK);
    assert_string_equal(text, again);
    free(text);
    free(again);
    hr_layout_destroy(read);
}

static void no_size_loses_a_layer(void **state)
{
    for (int n = 1; n <= 100; n++)
        for (int p = 1; p <= 16; p++)
            for (int v = 1; v <= 4; v++)
                for (int uneven = 0; uneven < 2; uneven++) {
                    hr_layout *l = NULL;
                    hr_layout_opts o = sizes(p, v, n);
                    o.mtp = n % 3;
                    o.uneven = uneven;
                    bool can = uneven ? n >= p * v : n % (p * v) == 0;
                    assert_int_equal(hr_layout_split(&o, &l) == HR_OK, can);
                    if (can) {
                        whole(l, p, n);
                        printed_and_read(l, &o);
                    } else {
                        assert_null(l);
                        assert_string_equal(hr_last_reason(), "layout_refused");
                    }
                    hr_layout_destroy(l);
                }
}

static void expect_text(const hr_layout_opts *o, const char *expected)
{
    hr_layout *l = NULL;
    char *text = NULL;
    if (hr_layout_split(o, &l) < 0)
        fail_msg("%s", hr_last_error());
    assert_int_equal(hr_layout_print(l, &text), HR_OK);
    assert_string_equal(text, expected);
    free(text);
    hr_layout_destroy(l);
}

/* Splits that are known to have made a smaller model elsewhere. */
static void known_losses_are_refused_or_whole(void **state)
{
    static const int sizes_of[][3] = {{16, 2, 80}, {4, 1, 30}, {8, 2, 40}};
    for (int k = 0; k < 3; k++) {
        hr_layout *l = NULL;
        hr_layout_opts o = sizes(sizes_of[k][0], sizes_of[k][1], sizes_of[k][2]);
        assert_int_equal(hr_layout_split(&o, &l), HR_ERR_INVALID);
        o.uneven = true;
        assert_int_equal(hr_layout_split(&o, &l), HR_OK);
        whole(l, o.ranks, o.layers);
        for (int stage = 0; stage < hr_layout_stages(l); stage++) {
            int here = part_of(l, stage).layers;
            int least = o.layers / hr_layout_stages(l);
            assert_in_range(here, least, least + 1);
        }
        hr_layout_destroy(l);
    }
    hr_layout *l = NULL;
    hr_layout_opts o = sizes(4, 1, 30);
    assert_int_equal(hr_layout_split(&o, &l), HR_ERR_INVALID);
    assert_string_equal(
        hr_last_error(),
        "30 layers on 4 ranks of 1 chunk: 30 layers for all ranks do "
        "not divide into 4 stages; 28 or 32 would, or an uneven layout");
}

static void the_first_and_last_rank_can_differ(void **state)
{
    hr_layout *l = NULL;
    hr_layout_opts o = sizes(4, 1, 30);
    o.first = 7;
    o.last = 7;
    expect_text(&o, "Et*7|t*8|t*8|t*7L");
    o = sizes(3, 2, 16);
    o.first = 4;
    expect_text(&o, "Et*2|t*3|t*3|t*2|t*3|t*3L");
    o.placement = HR_PLACEMENT_V;
    expect_text(&o, "Et*2|t*3|t*3|t*3|t*3|t*2L");
    o.first = 3;
    assert_int_equal(hr_layout_split(&o, &l), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "3 layers for the first rank"));
    o = sizes(2, 1, 5);
    o.first = 2;
    o.last = 2;
    assert_int_equal(hr_layout_split(&o, &l), HR_ERR_INVALID);
}

/* The dearest stage is as cheap as by trying all splits. */
static int64_t cheapest(const int64_t *cost, int n, int stages)
{
    int64_t best = INT64_MAX;
    int64_t sum = 0;
    if (stages == 1) {
        for (int i = 0; i < n; i++)
            sum += cost[i];
        return sum;
    }
    for (int i = 1; i <= n - stages + 1; i++) {
        sum += cost[i - 1];
        int64_t rest = cheapest(cost + i, n - i, stages - 1);
        int64_t worst = sum > rest ? sum : rest;
        best = worst < best ? worst : best;
    }
    return best;
}

static int64_t dearest(const hr_layout *l, const int64_t *cost)
{
    int64_t worst = 0;
    int at = 0;
    for (int stage = 0; stage < hr_layout_stages(l); stage++) {
        hr_layout_part part = part_of(l, stage);
        int64_t sum = 0;
        int n = part.embedding + part.layers + part.mtp + part.loss;
        assert_true(n > 0);
        while (n-- > 0)
            sum += cost[at++];
        worst = sum > worst ? sum : worst;
    }
    return worst;
}

static void costs_give_the_cheapest_dearest_stage(void **state)
{
    unsigned seed = 1;
    for (int round = 0; round < 400; round++) {
        int64_t cost[12];
        hr_layout *l = NULL;
        hr_layout_opts o = sizes(1 + round % 4, 1 + round % 2, 8);
        o.mtp = round % 3;
        o.cost = cost;
        for (int i = 0; i < 10 + o.mtp; i++) {
            seed = seed * 1103515245u + 12345u;
            cost[i] = 1 + (seed >> 16) % (round % 5 ? 9 : 1000000007);
        }
        assert_int_equal(hr_layout_split(&o, &l), HR_OK);
        whole(l, o.ranks, 8);
        assert_true(dearest(l, cost) == cheapest(cost, 10 + o.mtp, o.ranks * o.chunks));
        hr_layout_destroy(l);
    }
}

static void a_dear_loss_gets_fewer_layers(void **state)
{
    static const int64_t cost[] = {1, 2, 2, 2, 2, 2, 2, 2, 2, 3};
    hr_layout_opts o = sizes(4, 1, 8);
    o.cost = cost;
    expect_text(&o, "Et*2|t*3|t*2|tL");
}

static void by_hand(const char *text, hr_layout_opts o, const char *expected)
{
    hr_layout *l = NULL;
    char *again = NULL;
    if (hr_layout_parse(text, strlen(text), &o, &l) < 0)
        fail_msg("%s: %s", text, hr_last_error());
    assert_int_equal(hr_layout_print(l, &again), HR_OK);
    assert_string_equal(again, expected);
    whole(l, o.ranks, hr_layout_layers(l));
    free(again);
    hr_layout_destroy(l);
}

static void layouts_by_hand_are_read(void **state)
{
    hr_layout *l = NULL;
    hr_layout_opts o = sizes(16, 2, 61);
    const char *text = "Et*3|(tt|)*29,m|L";
    o.mtp = 1;
    assert_int_equal(hr_layout_parse(text, strlen(text), &o, &l), HR_OK);
    whole(l, 16, 61);
    hr_layout_part first = part_of(l, 0);
    hr_layout_part mtp = part_of(l, 30);
    hr_layout_part loss = part_of(l, 31);
    assert_true(first.embedding && first.layers == 3 && !first.loss);
    assert_true(mtp.rank == 14 && mtp.chunk == 1 && mtp.mtp == 1 && mtp.layers == 0);
    assert_true(loss.rank == 15 && loss.loss && loss.layers == 0);
    hr_layout_destroy(l);
    by_hand("E|t*3|(t|)*2L", sizes(5, 0, 5), "E|t*3|t|t|L");
    by_hand("Et||tL|", sizes(2, 0, 0), "Et||tL|");
    by_hand("Et|*3L", sizes(4, 1, 1), "Et|||L");
    by_hand("EL", sizes(1, 0, 0), "EL");
}

static void wrong(const char *text, const char *says)
{
    hr_layout *l = NULL;
    hr_layout_opts o = sizes(4, 0, 0);
    assert_true(hr_layout_parse(text, strlen(text), &o, &l) < 0);
    assert_null(l);
    if (strstr(hr_last_error(), says) == NULL)
        fail_msg("'%s': '%s', not '%s'", text, hr_last_error(), says);
}

static void layouts_by_hand_say_what_is_wrong(void **state)
{
    wrong("", "ends at position 0: embedding and loss are missing");
    wrong("Et|t|t|t", "ends at position 8: the loss is missing");
    wrong("t|Et|t|tL",
          "position 1 of the layout, 't': the embedding has to stand before");
    wrong("Et|Et|t|tL", "position 4 of the layout, 'E': the embedding stands first");
    wrong("Et|mt|t|tL", "position 5 of the layout, 't': a decoder layer behind");
    wrong("Et|t|tL|t", "position 9 of the layout, 't': it stands behind the loss");
    wrong("Et|t|tL|L", "position 9 of the layout, 'L': it stands behind the loss");
    wrong("Et|t|x|tL", "position 6 of the layout, 'x': none of E, t, m, L");
    wrong("Et|t|\n|tL", "position 6 of the layout: byte 0x0a");
    wrong("Et*|t|t|tL", "position 4 of the layout, '|': a number of repeats");
    wrong("Et*0|t|t|tL", "position 4 of the layout, '0': repeated no times");
    wrong("Et,*2|t|t|tL", "position 4 of the layout, '*': none of");
    wrong("Et|(t|)t|tL", "position 7 of the layout, ')': brackets want a number");
    wrong("Et|(t*2|)*2tL", "position 6 of the layout, '*': only E, t, m, L");
    wrong("Et|((t|)*2)*2tL", "position 5 of the layout, '(': only E, t, m, L");
    wrong("Et|(t|", "position 4 of the layout, '(': it is never closed");
    wrong("Et|()*2tL", "position 5 of the layout, ')': nothing in brackets");
    wrong("Et*1000000000L", "position 4 of the layout, '1': too many repeats");
    wrong("Et*2000000L", "position 2 of the layout, 't': too many layers");
    wrong("E(t|)*1000000L", "position 4 of the layout, '|': too many stages");
    wrong("Et|t|tL", "3 stages, fewer than the 4 ranks; 4 stages would do");
    wrong("Et|t|t|t|tL", "4 or 8 stages would do");
}

static void layouts_by_hand_are_held_against_the_model(void **state)
{
    static const char text[] = "Ett|tt|tt|mL";
    hr_layout *l = NULL;
    hr_layout_opts o = sizes(4, 0, 8);
    assert_int_equal(hr_layout_parse(text, sizeof text - 1, &o, &l), HR_ERR_INVALID);
    assert_string_equal(hr_last_error(), "the layout has 6 layers, the model 8");
    o.layers = 6;
    assert_int_equal(hr_layout_parse(text, sizeof text - 1, &o, &l), HR_ERR_INVALID);
    assert_string_equal(hr_last_error(),
                        "the layout has 1 layers for prediction, the model 0");
    o.mtp = 2;
    assert_int_equal(hr_layout_parse(text, sizeof text - 1, &o, &l), HR_ERR_INVALID);
    o.mtp = 1;
    o.chunks = 2;
    assert_int_equal(hr_layout_parse(text, sizeof text - 1, &o, &l), HR_ERR_INVALID);
    o.chunks = 0;
    o.placement = HR_PLACEMENT_V;
    assert_int_equal(hr_layout_parse(text, sizeof text - 1, &o, &l), HR_ERR_INVALID);
    o.ranks = 2;
    assert_int_equal(hr_layout_parse(text, sizeof text - 1, &o, &l), HR_OK);
    assert_int_equal(part_of(l, 2).rank, 1);
    assert_int_equal(part_of(l, 3).rank, 0);
    hr_layout_destroy(l);
}

static void sizes_that_are_none_are_refused(void **state)
{
    static const int bad[][3] = {{0, 1, 4},  {-1, 1, 4},    {4, -1, 4},
                                 {4, 1, -1}, {70000, 1, 4}, {4, 1, 1 << 30}};
    int64_t cost[3] = {1, -1, 1};
    hr_layout *l = NULL;
    int stage;
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        hr_layout_opts o = sizes(bad[k][0], bad[k][1], bad[k][2]);
        assert_int_equal(hr_layout_split(&o, &l), HR_ERR_INVALID);
        assert_string_equal(hr_last_reason(), "layout_size");
        assert_int_equal(hr_layout_parse("EL", 2, &o, &l), HR_ERR_INVALID);
    }
    hr_layout_opts o = sizes(1, 1, 1);
    o.cost = cost;
    assert_int_equal(hr_layout_split(&o, &l), HR_ERR_INVALID);
    o.cost = NULL;
    assert_int_equal(hr_layout_split(&o, &l), HR_OK);
    hr_layout_part part;
    assert_int_equal(hr_layout_get(l, 1, &part), HR_ERR_INVALID);
    assert_int_equal(hr_layout_find(l, 1, &stage, &stage), HR_ERR_INVALID);
    hr_layout_destroy(l);
}

static void huge_layouts_are_refused_at_once(void **state)
{
    static const char *const texts[] = {"Et*1000000000L", "E(t|)*1000000000L",
                                        "Et*999999999999999999999L", "E|*1000000000L",
                                        "E(tttttttttttttttttttt)*2000000L"};
    hr_layout *l = NULL;
    hr_layout_opts o = {HR_INIT(hr_layout_opts), .ranks = 1};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(hr_layout_parse(texts[i], strlen(texts[i]), &o, &l),
                         HR_ERR_PARSE);
        assert_null(l);
        assert_non_null(strstr(hr_last_error(), "position"));
    }
    size_t bytes = 100000000;
    char *text = calloc(bytes, 1);
    assert_non_null(text);
    assert_int_equal(hr_layout_parse(text, bytes, &o, &l), HR_ERR_PARSE);
    assert_string_equal(hr_last_error(),
                        "100000000 bytes of layout: at most 1048576 are read");
    free(text);
    o.layers = 1000000000;
    assert_int_equal(hr_layout_split(&o, &l), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "layout_size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_size_loses_a_layer),
        cmocka_unit_test(known_losses_are_refused_or_whole),
        cmocka_unit_test(the_first_and_last_rank_can_differ),
        cmocka_unit_test(costs_give_the_cheapest_dearest_stage),
        cmocka_unit_test(a_dear_loss_gets_fewer_layers),
        cmocka_unit_test(layouts_by_hand_are_read),
        cmocka_unit_test(layouts_by_hand_say_what_is_wrong),
        cmocka_unit_test(layouts_by_hand_are_held_against_the_model),
        cmocka_unit_test(sizes_that_are_none_are_refused),
        cmocka_unit_test(huge_layouts_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
