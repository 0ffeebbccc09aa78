/* "local-late": what is overwritten, or released and handed out again, while an operation may still
 * read it is seen as wrong bytes, every time; what is ordered behind the operation is not. Nothing
 * here depends on time: an operation is put off for minutes unless somebody waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"
#include "headrace/group.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096, GOOD = 1, OTHER = 7, POISON = 0xff };

typedef enum what { SEND, ALL_TO_ALL, ALL_REDUCE, BROADCAST } what;
/* What rank 0 does with the source once the operation is issued. */
typedef enum then { NOTHING, OVERWRITE, RELEASE, REUSE } then;

struct trial {
    what what;
    then then;
    bool orders;       /* the compute stream waits for the operation before that */
    unsigned char got; /* by rank 1: the byte that all are; 0 if they differ */
};

static hr_status exchange(hr_group *g, const struct trial *t, void *from, void *to,
                          hr_stream *s)
{
    bool first = hr_group_rank(g) == 0;
    hr_p2p op = {first, first ? 1 : 0, first ? from : to, BYTES};
    const int64_t out[2] = {0, first ? BYTES : 0}, in[2] = {first ? 0 : BYTES, 0};
    switch (t->what) {
    case SEND:
        return hr_group_batch(g, &op, 1, s);
    case ALL_TO_ALL:
        return hr_all_to_all_v(g, from, out, to, in, 1, s);
    case ALL_REDUCE:
        return hr_all_reduce(g, from, to, BYTES / 4, HR_I32, HR_MAX, s);
    case BROADCAST:
        return hr_broadcast(g, first ? from : to, BYTES, 0, s);
    }
    return HR_OK;
}

static hr_status go_on(const struct trial *t, void **from, hr_stream *compute)
{
    if (t->then == OVERWRITE)
        return hr_fill(compute, *from, OTHER, BYTES);
    if (t->then == NOTHING)
        return HR_OK;
    hr_mem_free(*from, compute);
    *from = NULL;
    if (t->then == RELEASE)
        return HR_OK;
    HR_TRY(hr_mem_alloc(compute, BYTES, from)); /* the same block */
    return hr_fill(compute, *from, OTHER, BYTES);
}

static unsigned char the_byte(const unsigned char *to)
{
    for (int i = 1; i < BYTES; i++)
        if (to[i] != to[0])
            return 0;
    return to[0];
}

static hr_status stages(hr_group *g, void *arg)
{
    struct trial *t = arg;
    bool first = hr_group_rank(g) == 0;
    hr_device *dev = hr_group_device(g);
    hr_stream *compute = hr_stream_current(), *comm;
    hr_event *ready, *done;
    void *from, *to;
    HR_TRY(hr_stream_create(
        dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = "comm"}, &comm));
    HR_TRY(hr_event_create(dev, &ready));
    HR_TRY(hr_event_create(dev, &done));
    HR_TRY(hr_mem_alloc(compute, BYTES, &to));
    HR_TRY(hr_mem_alloc(compute, BYTES, &from));
    HR_TRY(hr_fill(compute, to, 0, BYTES));
    HR_TRY(hr_fill(compute, from, first ? GOOD : 0, BYTES));
    HR_TRY(hr_event_record(ready, compute));
    HR_TRY(hr_event_wait(ready, comm));
    HR_TRY(exchange(g, t, from, to, comm));
    HR_TRY(hr_event_record(done, comm));
    if (t->orders || !first)
        HR_TRY(hr_event_wait(done, compute));
    if (first)
        HR_TRY(go_on(t, &from, compute));
    HR_TRY(hr_stream_synchronize(compute)); /* all of the above, and nothing of comm */
    HR_TRY(hr_stream_synchronize(comm));
    if (!first)
        t->got = the_byte(to);
    hr_mem_free(from, compute);
    hr_mem_free(to, compute);
    hr_event_destroy(ready);
    hr_event_destroy(done);
    HR_TRY(hr_stream_synchronize(compute));
    hr_stream_destroy(comm);
    return HR_OK;
}

static unsigned char try(what w, then th, bool orders)
{
    struct trial t = {.what = w, .then = th, .orders = orders};
    hr_local_opts o = {HR_INIT(hr_local_opts), .engine = "local-late", .delay_us = 2e8};
    hr_status st = hr_local_run(2, &o, stages, &t);
    if (st < 0)
        print_error("%s\n", hr_last_error());
    assert_int_equal(st, HR_OK);
    return t.got;
}

static void a_source_that_is_overwritten_too_early_is_read_so(void **state)
{
    for (what w = SEND; w <= BROADCAST; w++) {
        assert_int_equal(try(w, OVERWRITE, false), OTHER);
        assert_int_equal(try(w, OVERWRITE, true), GOOD);
        assert_int_equal(try(w, NOTHING, false), GOOD);
    }
}

static void a_source_that_is_released_and_handed_out_again_is_read_so(void **state)
{
    for (what w = SEND; w <= BROADCAST; w++) {
        assert_int_equal(try(w, REUSE, false), OTHER);
        assert_int_equal(try(w, REUSE, true), GOOD);
    }
}

static void a_source_that_is_released_is_poison_in_any_build(void **state)
{
    /* As signed numbers, poison is -1 and loses the all_reduce by maximum. */
    assert_int_equal(try(SEND, RELEASE, false), POISON);
    assert_int_equal(try(ALL_TO_ALL, RELEASE, false), POISON);
    assert_int_equal(try(BROADCAST, RELEASE, false), POISON);
    assert_int_equal(try(ALL_REDUCE, RELEASE, false), 0);
    for (what w = SEND; w <= BROADCAST; w++)
        assert_int_equal(try(w, RELEASE, true), GOOD);
}

/* Rank 0 waits for nothing of its own until rank 1 has it. */
static hr_status needed_by_a_peer_alone(hr_group *g, void *arg)
{
    atomic_int *there = arg;
    int x = 5, y = 0;
    hr_p2p op = {.peer = 1 - hr_group_rank(g), .bytes = sizeof x};
    op.send = hr_group_rank(g) == 0;
    op.buf = op.send ? &x : &y;
    HR_TRY(hr_group_batch(g, &op, 1, hr_stream_current()));
    while (op.send && !atomic_load(there))
        sched_yield();
    HR_TRY(hr_stream_synchronize(hr_stream_current()));
    if (!op.send)
        atomic_store(there, y);
    return HR_OK;
}

static void what_only_a_peer_waits_for_begins_in_the_end(void **state)
{
    atomic_int there = 0;
    hr_local_opts o = {HR_INIT(hr_local_opts), .engine = "local-late",
                       .delay_us = 1000};
    assert_int_equal(hr_local_run(2, &o, needed_by_a_peer_alone, &there), HR_OK);
    assert_int_equal(there, 5);
}

static hr_status fail_meanwhile(hr_group *g, void *arg)
{
    HR_TRY(hr_barrier(g, hr_stream_current()));
    if (hr_group_rank(g) == 1)
        return hr_fail(HR_ERR_IO, "test", "the disk is full");
    while (hr_stream_query(hr_stream_current()) == HR_PENDING)
        sched_yield(); /* nobody waits */
    return HR_OK;
}

static void a_failure_ends_what_is_put_off(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .engine = "local-late", .delay_us = 9e8};
    assert_int_equal(hr_local_run(3, &o, fail_meanwhile, NULL), HR_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_that_is_overwritten_too_early_is_read_so),
        cmocka_unit_test(a_source_that_is_released_and_handed_out_again_is_read_so),
        cmocka_unit_test(a_source_that_is_released_is_poison_in_any_build),
        cmocka_unit_test(what_only_a_peer_waits_for_begins_in_the_end),
        cmocka_unit_test(a_failure_ends_what_is_put_off),
    };
    unsetenv("HEADRACE_LAUNCH_BLOCKING"); /* then nothing can be too early */
    unsetenv("HEADRACE_CHECK"); /* it would find the mistakes before they run */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
