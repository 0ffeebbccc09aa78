/* The check of a schedule: what it finds and what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>

static hr_schedule *read_sized(int ranks, int stages, int m, const char *orders)
{
    char text[2000];
    hr_schedule *s = NULL;
    int n = snprintf(text, sizeof text,
                     "headrace schedule 1\nranks %d\nstages %d\nmicrobatches %d\n"
                     "placement loop\n%s",
                     ranks, stages, m, orders);
    if (hr_schedule_parse(text, (size_t)n, &s) < 0)
        fail_msg("%s", hr_last_error());
    return s;
}

/* The check of a schedule on two ranks has to fail with these. */
static void fails(int stages, int m, const char *orders, const char *reason,
                  const char *sentence)
{
    hr_schedule *s = read_sized(2, stages, m, orders);
    assert_int_equal(hr_schedule_check(s, NULL, NULL), HR_ERR_INVALID);
    assert_string_equal(hr_last_error(), sentence);
    assert_string_equal(hr_last_reason(), reason);
    hr_schedule_destroy(s);
}

static void a_sound_schedule_passes(void **state)
{
    hr_check_report report;
    hr_schedule *s = read_sized(2, 2, 2,
                                "rank 0 0F0 0F1 0I0 0B1 0W0\n"
                                "rank 1 1F0 (1F1;1B0) 1B1\n");
    assert_int_equal(hr_schedule_check(s, NULL, &report), HR_OK);
    assert_true(report.complete && report.placed && report.runs && report.fits);
    hr_schedule_destroy(s);
}

static void each_action_stands_exactly_once(void **state)
{
    fails(2, 2, "rank 0 0F0 0F1 0B0\nrank 1 1F0 1B0 1F1 1B1\n", "missing",
          "0B1 is missing on rank 0");
    fails(2, 1, "rank 0 0F0 0B0\nrank 1 1F0 1I0\n", "missing",
          "1W0 is missing on rank 1");
    fails(2, 1, "rank 0 0F0 0B0 0F0\nrank 1 1F0 1B0\n", "twice",
          "0F0 stands twice: rank 0, position 0, and rank 0, position 2");
    fails(2, 1, "rank 0 0F0 0B0\nrank 1 1F0 1B0 1I0 1W0\n", "twice",
          "stage 1, microbatch 0 has both a whole backward (B) and a split one (I, W)");
    fails(2, 1, "rank 0 0F0 0B0 1F0 1B0\nrank 1\n", "misplaced",
          "rank 0, position 2: 1F0 belongs to rank 1");
}

static void a_deadlock_is_told_by_its_smallest_circle(void **state)
{
    fails(2, 2, "rank 0 0F0 0B0 0F1 0B1\nrank 1 1F1 1F0 1B1 1B0\n", "deadlock",
          "deadlock: rank 0, position 1: 0B0 waits for 1B0 at position 3 of rank 1; "
          "rank 1, position 0: 1F1 waits for 0F1 at position 2 of rank 0");
    fails(2, 1, "rank 0 0F0 0W0 0I0\nrank 1 1F0 1B0\n", "deadlock",
          "deadlock: rank 0, position 1: 0W0 waits for 0I0 at position 2 of rank 0");
    fails(2, 1, "rank 0 0F0 0B0\nrank 1 (1F0;1B0)\n", "deadlock",
          "deadlock: rank 1, position 0: 1B0 waits for 1F0 at position 0 of rank 1");
}

static void transfers_need_both_ends(void **state)
{
    static const char good[] =
        "rank 0 0F0 0SEND_F0 0RECV_B0 0B0\nrank 1 1RECV_F0 1F0 1B0 1SEND_B0\n";
    hr_schedule *s = read_sized(2, 2, 1, good);
    assert_true(hr_schedule_is_lowered(s));
    assert_int_equal(hr_schedule_check(s, NULL, NULL), HR_OK);
    hr_schedule_destroy(s);
    fails(2, 1, "rank 0 0F0 0SEND_F0 0RECV_B0 0B0\nrank 1 1F0 1B0 1SEND_B0\n",
          "missing", "1RECV_F0 is missing on rank 1");
    fails(
        2, 1, "rank 0 0F0 0SEND_F0 0RECV_B0 0B0\nrank 1 1F0 1RECV_F0 1B0 1SEND_B0\n",
        "deadlock",
        "deadlock: rank 1, position 0: 1F0 waits for 1RECV_F0 at position 1 of rank 1");
    fails(1, 1, "rank 0 0F0 0B0 0SEND_F0\nrank 1\n", "unmatched",
          "0SEND_F0 transfers nothing: the value does not leave its rank");
}

static void sends_that_wait_for_their_receives_may_deadlock(void **state)
{
    fails(
        2, 2,
        "rank 0 0F0 0F1 0SEND_F1 0SEND_F0 0RECV_B0 0B0 0RECV_B1 0B1\n"
        "rank 1 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1\n",
        "deadlock",
        "deadlock: rank 0, position 2: 0SEND_F1 waits for 1RECV_F1 at position 2 of "
        "rank 1; rank 1, position 0: 1RECV_F0 waits for 0SEND_F0 at position 3 of rank "
        "0");
}

static void a_value_is_not_sent_before_it_is_made(void **state)
{
    fails(2, 1, "rank 0 0SEND_F0 0F0 0RECV_B0 0B0\nrank 1 1RECV_F0 1F0 1B0 1SEND_B0\n",
          "deadlock",
          "deadlock: rank 0, position 0: 0SEND_F0 waits for 0F0 at position 1 of rank "
          "0");
}

static void append(hr_schedule *s, int rank, hr_action_kind kind, int microbatch)
{
    hr_action a = {
        .microbatch = microbatch, .stage = (uint16_t)rank, .kind = (uint8_t)kind};
    assert_int_equal(hr_schedule_append(s, rank, &a, 1), HR_OK);
}

/* Of many ranks that all wait two wait for each other. */
static void the_smallest_circle_is_found_among_many_ranks(void **state)
{
    enum { RANKS = 3000, LATE = 2500 };
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape), .ranks = RANKS,
                               .stages = RANKS, .microbatches = 2};
    hr_schedule *s = NULL;
    assert_int_equal(hr_schedule_create(&shape, &s), HR_OK);
    for (int r = 0; r < RANKS; r++) {
        int first = r == LATE; /* one rank takes the forwards in the other order */
        append(s, r, HR_ACTION_F, first);
        if (r < LATE)
            append(s, r, HR_ACTION_B, 0);
        append(s, r, HR_ACTION_F, !first);
        if (r >= LATE)
            append(s, r, HR_ACTION_B, 0);
        append(s, r, HR_ACTION_B, 1);
    }
    assert_int_equal(hr_schedule_check(s, NULL, NULL), HR_ERR_INVALID);
    assert_string_equal(
        hr_last_error(),
        "deadlock: rank 2499, position 1: 2499B0 waits for 2500B0 at position 2 of "
        "rank "
        "2500; rank 2500, position 0: 2500F1 waits for 2499F1 at position 2 of rank "
        "2499");
    hr_schedule_destroy(s);
}

/* All actions of a long pair count, the last one too, which waits for the pair itself. */
static void a_pair_of_many_waits_with_each_of_them(void **state)
{
    char text[1600] = "rank 0 0F0 0B0";
    for (int m = 1; m < 21; m++)
        snprintf(text + strlen(text), 40, " 0F%d 0B%d", m, m);
    strcat(text, "\nrank 1 (");
    for (int m = 1; m < 21; m++)
        snprintf(text + strlen(text), 40, "1F%d;", m);
    strcat(text, "1F0;1B0)");
    for (int m = 1; m < 21; m++)
        snprintf(text + strlen(text), 40, " 1B%d", m);
    strcat(text, "\n");
    fails(2, 21, text, "deadlock",
          "deadlock: rank 1, position 0: 1B0 waits for 1F0 at position 20 of rank 1");
}

static void weights_are_gathered_and_gradients_reduced_last(void **state)
{
    static const char peer[] = "\nrank 1 1UNSHARD 1F0 1B0 1REDUCE_GRAD 1RESHARD\n";
    static const struct {
        const char *order, *sentence;
    } bad[] = {
        {"rank 0 0F0 0B0 0REDUCE_GRAD",
         "rank 0, position 0: 0F0, but its weights are not gathered"},
        {"rank 0 0UNSHARD 0F0 0RESHARD 0B0 0REDUCE_GRAD",
         "rank 0, position 3: 0B0, but its weights are not gathered"},
        {"rank 0 0UNSHARD 0F0 0REDUCE_GRAD 0B0",
         "rank 0, position 3: 0B0, but its gradients were reduced before"},
        {"rank 0 0UNSHARD 0F0 0B0 0REDUCE_GRAD 0REDUCE_GRAD",
         "rank 0, position 4: 0REDUCE_GRAD, but its gradients are reduced already"},
        {"rank 0 0UNSHARD 0F0 0B0",
         "rank 0: the gradients of stage 0 are never reduced"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[400];
        snprintf(text, sizeof text, "%s%s", bad[i].order, peer);
        fails(2, 1, text, "weights", bad[i].sentence);
    }
}

static void limits_name_the_rank_that_holds_more(void **state)
{
    hr_schedule *s = read_sized(2, 2, 2,
                                "rank 0 0F0 0F1 0I0 0I1 0W0 0W1\n"
                                "rank 1 1F0 1B0 1F1 1B1\n");
    hr_check_opts limits = {HR_INIT(hr_check_opts), .max_act = 2, .max_wstash = 2};
    assert_int_equal(hr_schedule_check(s, &limits, NULL), HR_OK);
    limits.max_wstash = 1;
    assert_int_equal(hr_schedule_check(s, &limits, NULL), HR_ERR_INVALID);
    assert_string_equal(
        hr_last_error(),
        "rank 0 holds up to 2 weight gradients put off, the limit is 1");
    limits.max_act = 1;
    assert_int_equal(hr_schedule_check(s, &limits, NULL), HR_ERR_INVALID);
    assert_string_equal(hr_last_error(),
                        "rank 0 holds up to 2 activations, the limit is 1");
    hr_schedule_destroy(s);
}

static void the_report_tells_apart_what_holds(void **state)
{
    hr_check_report report;
    hr_schedule *s =
        read_sized(2, 2, 2, "rank 0 0F0 0F1 0B0\nrank 1 1F0 1F1 1B0 1B1\n");
    assert_int_equal(hr_schedule_check(s, NULL, &report), HR_ERR_INVALID);
    assert_false(report.complete);
    assert_true(report.placed && report.runs);
    assert_string_equal(hr_last_error(), "0B1 is missing on rank 0");
    hr_schedule_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_schedule_passes),
        cmocka_unit_test(each_action_stands_exactly_once),
        cmocka_unit_test(a_deadlock_is_told_by_its_smallest_circle),
        cmocka_unit_test(transfers_need_both_ends),
        cmocka_unit_test(sends_that_wait_for_their_receives_may_deadlock),
        cmocka_unit_test(a_value_is_not_sent_before_it_is_made),
        cmocka_unit_test(the_smallest_circle_is_found_among_many_ranks),
        cmocka_unit_test(a_pair_of_many_waits_with_each_of_them),
        cmocka_unit_test(weights_are_gathered_and_gradients_reduced_last),
        cmocka_unit_test(limits_name_the_rank_that_holds_more),
        cmocka_unit_test(the_report_tells_apart_what_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
