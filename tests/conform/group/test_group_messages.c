/* Batches of messages: who meets whom, in which order, and what cannot deadlock. */
#include "conform/group/engines.h"
#include <sched.h>
#include <string.h>

static hr_p2p message(bool send, int peer, void *buf, size_t bytes)
{
    return (hr_p2p){.send = send, .peer = peer, .buf = buf, .bytes = bytes};
}

static hr_status sync(void)
{
    return hr_stream_synchronize(hr_stream_current());
}

/* To the next, from the previous and back, as pipelines do; at two both are the same rank. */
static hr_status ring(hr_group *g, void *arg)
{
    int n = hr_group_size(g), me = hr_group_rank(g);
    int next = (me + 1) % n, previous = (me + n - 1) % n;
    for (int i = 0; i < 50; i++) {
        int down = me * 1000 + i, up = me * 1000 + 500 + i, from_next, from_previous;
        hr_p2p ops[] = {message(true, next, &down, sizeof down),
                        message(true, previous, &up, sizeof up),
                        message(false, previous, &from_previous, sizeof(int)),
                        message(false, next, &from_next, sizeof(int))};
        TRY(hr_group_batch(g, ops, 4, hr_stream_current()));
        TRY(sync());
        CHECK(from_previous == previous * 1000 + i);
        CHECK(from_next == next * 1000 + 500 + i);
    }
    return HR_OK;
}

static void next_and_previous_may_be_the_same_rank(void **state)
{
    static const int sizes[] = {2, 3, 4, 8};
    succeeds(sizes, 4, ring, NULL);
}

/* Each rank lists its messages in an order of its own. */
static hr_status shuffled(hr_group *g, void *arg)
{
    enum { RANKS = 8 };
    int n = hr_group_size(g), me = hr_group_rank(g), out[RANKS], in[RANKS];
    hr_p2p ops[2 * RANKS];
    for (int i = 0; i < n; i++) {
        int to = me % 2 ? i : n - 1 - i;
        out[to] = me * 10 + to;
        ops[me % 3 ? i : n + i] = message(true, to, &out[to], sizeof(int));
        int from = (i + me) % n;
        ops[me % 3 ? n + i : i] = message(false, from, &in[from], sizeof(int));
    }
    TRY(hr_group_batch(g, ops, 2 * n, hr_stream_current()));
    TRY(sync());
    for (int r = 0; r < n; r++)
        CHECK(in[r] == r * 10 + me);
    return HR_OK;
}

static void no_order_within_a_batch_deadlocks(void **state)
{
    succeeds_everywhere(shuffled, NULL);
}

/* Three sends in two batches, received by three batches and the other way round. */
static hr_status in_order(hr_group *g, void *arg)
{
    hr_stream *s = hr_stream_current();
    int peer = 1 - hr_group_rank(g), x[3] = {1, 2, 3}, y[3] = {0};
    if (hr_group_rank(g) == 0) {
        hr_p2p two[] = {message(true, peer, &x[0], 4), message(true, peer, &x[1], 4)};
        hr_p2p one = message(true, peer, &x[2], 4);
        TRY(hr_group_batch(g, two, 2, s));
        TRY(hr_group_batch(g, &one, 1, s));
    } else {
        hr_p2p one = message(false, peer, &y[0], 4);
        hr_p2p two[] = {message(false, peer, &y[1], 4), message(false, peer, &y[2], 4)};
        TRY(hr_group_batch(g, &one, 1, s));
        TRY(hr_group_batch(g, two, 2, s));
        TRY(sync());
        CHECK(y[0] == 1 && y[1] == 2 && y[2] == 3);
    }
    return sync();
}

static void order_of_sends_is_order_of_receives_across_batches(void **state)
{
    static const int two = 2;
    succeeds(&two, 1, in_order, NULL);
}

static hr_status to_self(hr_group *g, void *arg)
{
    int me = hr_group_rank(g), a[2] = {me, me + 1}, b[2] = {-1, -1};
    hr_p2p ops[] = {message(false, me, &b[0], 4), message(true, me, &a[0], 4),
                    message(true, me, &a[1], 4), message(false, me, &b[1], 4)};
    TRY(hr_group_batch(g, ops, 4, hr_stream_current()));
    TRY(hr_group_batch(g, NULL, 0, hr_stream_current()));
    TRY(sync());
    CHECK(b[0] == me && b[1] == me + 1);
    return HR_OK;
}

static void a_rank_may_send_to_itself(void **state)
{
    succeeds_everywhere(to_self, NULL);
}

/* Only two of four take part; an empty message is one that the receiver waits for. */
static hr_status empty(hr_group *g, void *arg)
{
    hr_p2p op = message(hr_group_rank(g) == 1, hr_group_rank(g) == 1 ? 3 : 1, NULL, 0);
    if (hr_group_rank(g) == 1 || hr_group_rank(g) == 3)
        TRY(hr_group_batch(g, &op, 1, hr_stream_current()));
    return sync();
}

static void an_empty_message_is_a_message(void **state)
{
    static const int four = 4;
    succeeds(&four, 1, empty, NULL);
}

enum { LONGEST_MESSAGE = 300000 };

typedef struct unlike_sizes {
    size_t sent, expected;
    const char *words;
} unlike_sizes;

static hr_status sizes_differ(hr_group *g, void *arg)
{
    static char bufs[3][LONGEST_MESSAGE];
    const unlike_sizes *u = arg;
    bool first = hr_group_rank(g) == 0;
    hr_p2p op = message(first, first ? 2 : 0, bufs[hr_group_rank(g)],
                        first ? u->sent : u->expected);
    if (hr_group_rank(g) != 1)
        TRY(hr_group_batch(g, &op, 1, hr_stream_current()));
    else
        TRY(hr_barrier(g, hr_stream_current())); /* also comes back */
    while (first && hr_group_status(g) == HR_OK)
        sched_yield(); /* a send that was buffered has ended well */
    EXPECT(sync(), HR_ERR_MISMATCH, u->words);
    return HR_OK;
}

/* Long messages travel apart from what is said about them. */
static void sizes_that_differ_are_named_with_the_pair(void **state)
{
    static const unlike_sizes all[] = {
        {12, 8, "rank 0 sends 12 bytes to rank 2, which expects 8"},
        {8, 200000, "rank 0 sends 8 bytes to rank 2, which expects 200000"},
        {200000, 8, "rank 0 sends 200000 bytes to rank 2, which expects 8"},
        {200000, 300000, "rank 0 sends 200000 bytes to rank 2, which expects 300000"},
        {300000, 200000, "rank 0 sends 300000 bytes to rank 2, which expects 200000"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        unlike_sizes u = all[i];
        fails(3, NULL, sizes_differ, &u, HR_ERR_MISMATCH, WORDS(u.words));
    }
}

static hr_status refuse(hr_group *g, void *arg)
{
    char x;
    hr_stream *s = hr_stream_current();
    hr_p2p far = message(true, hr_group_size(g), &x, 1),
           null = message(true, 0, NULL, 1);
    EXPECT(hr_group_batch(g, &far, 1, s), HR_ERR_INVALID, "outside");
    EXPECT(hr_group_batch(g, &null, 1, s), HR_ERR_INVALID, "NULL");
    EXPECT(hr_group_batch(g, NULL, 1, s), HR_ERR_INVALID, "1 messages");
    EXPECT(hr_group_batch(g, &far, -1, s), HR_ERR_INVALID, "-1");
    return HR_OK;
}

static void bad_messages_are_refused_at_once(void **state)
{
    succeeds_everywhere(refuse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_and_previous_may_be_the_same_rank),
        cmocka_unit_test(no_order_within_a_batch_deadlocks),
        cmocka_unit_test(order_of_sends_is_order_of_receives_across_batches),
        cmocka_unit_test(a_rank_may_send_to_itself),
        cmocka_unit_test(an_empty_message_is_a_message),
        cmocka_unit_test(sizes_that_differ_are_named_with_the_pair),
        cmocka_unit_test(bad_messages_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
