/* Stream-ordered memory: when a block is handed out again, limits, counts, poison. */
#include "device_kit.h"

typedef struct fixture {
    hr_device *dev;
    hr_stream *a, *b, *c;
    hr_event *e;
} fixture;

static fixture set_up(int poison)
{
    fixture f = {.dev = open_device(
                     &(hr_device_opts){HR_INIT(hr_device_opts), .poison = poison})};
    f.a = hr_device_default_stream(f.dev);
    f.b = new_stream(f.dev, "b");
    f.c = new_stream(f.dev, "c");
    f.e = new_event(f.dev);
    return f;
}

static void tear_down(fixture *f)
{
    OK(hr_device_synchronize(f->dev));
    hr_device_close(f->dev);
}

static void *alloc(hr_stream *s, size_t bytes)
{
    void *p = NULL;
    OK(hr_mem_alloc(s, bytes, &p));
    assert_int_equal((uintptr_t)p % 64, 0);
    return p;
}

static void order(hr_event *e, hr_stream *first, hr_stream *then)
{
    OK(hr_event_record(e, first));
    OK(hr_event_wait(e, then));
}

static run_log scratch_log;

static void work(hr_stream *s)
{
    atomic_store(&scratch_log.n, 0);
    launch_note(s, &scratch_log, 0);
}

static void freed_block_serves_its_own_stream_at_once(void **state)
{
    fixture f = set_up(-1);
    gate g = GATE_INIT;
    void *p = alloc(f.a, 1000);
    launch_gate(f.a, &g);
    hr_mem_free(p, f.a);
    assert_ptr_equal(alloc(f.a, 900), p); /* though the gate holds its last use */
    open_gate(&g);
    tear_down(&f);
}

static void other_stream_gets_it_only_behind_an_event(void **state)
{
    fixture f = set_up(-1);
    void *p = alloc(f.a, 1000);
    work(f.a);
    hr_mem_free(p, f.a);
    assert_ptr_not_equal(alloc(f.b, 1000), p);
    order(f.e, f.a, f.b);
    assert_ptr_equal(alloc(f.b, 1000), p);
    tear_down(&f);
}

static void event_from_before_the_last_use_is_not_enough(void **state)
{
    fixture f = set_up(-1);
    void *p = alloc(f.a, 1000);
    work(f.a);
    order(f.e, f.a, f.b);
    work(f.a);
    hr_mem_free(p, f.a);
    assert_ptr_not_equal(alloc(f.b, 1000), p);
    order(f.e, f.a, f.c);
    order(f.e, f.c, f.b); /* through a third stream */
    assert_ptr_equal(alloc(f.b, 1000), p);
    tear_down(&f);
}

static void waits_queued_before_the_free_guard_the_block(void **state)
{
    fixture f = set_up(-1);
    hr_event *idle = new_event(f.dev);
    void *p = alloc(f.b, 1000);
    OK(hr_event_record(idle, f.a)); /* of a, as it was before it waited */
    work(f.b);
    order(f.e, f.b, f.a);
    hr_mem_free(p, f.a); /* no launch on a since the wait */
    OK(hr_event_wait(idle, f.c));
    assert_ptr_not_equal(alloc(f.c, 1000), p);
    order(f.e, f.a, f.c);
    assert_ptr_equal(alloc(f.c, 1000), p);
    tear_down(&f);
}

static void recorded_streams_guard_the_block_too(void **state)
{
    fixture f = set_up(-1);
    void *p = alloc(f.a, 1000);
    hr_mem_record_stream(p, f.b);
    work(f.a);
    work(f.b);
    hr_mem_free(p, f.a);
    assert_ptr_not_equal(alloc(f.a, 1000), p);
    order(f.e, f.b, f.a);
    assert_ptr_equal(alloc(f.a, 1000), p);
    work(f.b);
    hr_mem_free(p, f.a);
    assert_ptr_equal(alloc(f.a, 1000), p); /* the record went with the first free */
    hr_mem_record_stream(NULL, f.b);
    tear_down(&f);
}

static void finished_work_alone_orders_nothing(void **state)
{
    fixture f = set_up(-1);
    void *p = alloc(f.a, 1000);
    work(f.a);
    hr_mem_free(p, f.a);
    while (hr_stream_query(f.a) == HR_PENDING)
        ;
    assert_ptr_not_equal(alloc(f.b, 1000), p); /* a look depends on speed */
    OK(hr_stream_synchronize(f.a));
    assert_ptr_equal(alloc(f.b, 1000), p); /* a wait of the host does not */
    tear_down(&f);
}

static void host_waits_order_all_later_launches(void **state)
{
    fixture f = set_up(-1);
    void *p = alloc(f.a, 1000);
    work(f.a);
    OK(hr_event_record(f.e, f.a));
    hr_mem_free(p, f.a);
    OK(hr_event_synchronize(f.e));
    assert_ptr_equal(alloc(f.c, 1000), p);
    work(f.c);
    hr_mem_free(p, f.c);
    OK(hr_device_synchronize(f.dev));
    assert_ptr_equal(alloc(f.b, 1000), p);
    tear_down(&f);
}

static void free_without_a_stream_goes_by_the_alloc(void **state)
{
    fixture f = set_up(-1);
    void *p = alloc(f.b, 1000);
    work(f.b);
    hr_mem_free(p, NULL);
    assert_ptr_not_equal(alloc(f.a, 1000), p);
    assert_ptr_equal(alloc(f.b, 1000), p);
    tear_down(&f);
}

static void stream_that_is_gone_guards_nothing(void **state)
{
    fixture f = set_up(1);
    void *p = alloc(f.b, 1000), *q = alloc(f.b, 1000);
    work(f.b);
    hr_mem_free(p, f.b);
    hr_stream_destroy(f.b);
    assert_ptr_equal(alloc(f.a, 1000), p);
    hr_mem_free(q, NULL); /* its stream is gone */
    hr_stream *again = new_stream(f.dev, "again");
    work(again);
    assert_ptr_equal(alloc(f.c, 1000), q);
    tear_down(&f);
}

static void smaller_request_may_borrow_a_larger_block(void **state)
{
    fixture f = set_up(-1);
    void *p = alloc(f.a, 100000);
    hr_mem_free(p, f.a);
    void *tiny = alloc(f.a, 30000); /* less than half: not worth it */
    assert_ptr_not_equal(tiny, p);
    assert_ptr_equal(alloc(f.a, 60000), p);
    tear_down(&f);
}

static void blocks_never_overlap_and_hold_what_was_asked(void **state)
{
    fixture f = set_up(1);
    enum { N = 200 };
    unsigned char *p[N];
    size_t bytes[N];
    for (int i = 0; i < N; i++) {
        bytes[i] = (size_t)1 + (size_t)(i * 7919) % (i % 17 == 0 ? 6000000 : 20000);
        p[i] = alloc(f.a, bytes[i]);
        OK(hr_fill(f.a, p[i], i, bytes[i]));
    }
    OK(hr_stream_synchronize(f.a));
    for (int i = 0; i < N; i++) {
        assert_int_equal(p[i][0], i);
        assert_int_equal(p[i][bytes[i] - 1], i);
        hr_mem_free(p[i], f.a);
    }
    hr_mem_stats st;
    hr_mem_get_stats(f.dev, &st);
    assert_int_equal(st.live_blocks, 0);
    assert_int_equal(st.live_bytes, 0);
    tear_down(&f);
}

static void limit_names_request_live_and_limit(void **state)
{
    hr_device *dev =
        open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .memory = 1000});
    hr_stream *s = hr_stream_current();
    void *p = alloc(s, 600), *q = dev;
    assert_int_equal(hr_mem_alloc(s, 401, &q), HR_ERR_NOMEM);
    assert_null(q);
    assert_non_null(strstr(hr_last_error(), "401"));
    assert_non_null(strstr(hr_last_error(), "600"));
    assert_non_null(strstr(hr_last_error(), "1000"));
    assert_int_equal(hr_mem_alloc(s, SIZE_MAX, &q), HR_ERR_NOMEM);
    q = alloc(s, 400);
    hr_mem_free(p, s);
    hr_mem_free(q, s);
    q = alloc(s, 1000);
    hr_mem_free(q, s);
    hr_device_close(dev);
}

static void impossible_sizes_are_no_memory(void **state)
{
    fixture f = set_up(-1);
    void *p = &f;
    assert_int_equal(hr_mem_alloc(f.a, SIZE_MAX, &p), HR_ERR_NOMEM);
    assert_null(p);
    assert_int_equal(hr_mem_alloc(f.a, SIZE_MAX / 5, &p), HR_ERR_NOMEM);
    OK(hr_mem_alloc(f.a, 0, &p));
    assert_null(p);
    hr_mem_free(NULL, f.a);
    assert_int_equal(hr_mem_alloc(NULL, 8, &p), HR_ERR_INVALID);
    tear_down(&f);
}

static void stats_count_live_peak_and_reserved(void **state)
{
    fixture f = set_up(0);
    hr_mem_stats st;
    void *p = alloc(f.a, 1000), *q = alloc(f.b, 500);
    hr_mem_free(p, f.a);
    hr_mem_get_stats(f.dev, &st);
    assert_int_equal(st.live_bytes, 500);
    assert_int_equal(st.live_blocks, 1);
    assert_int_equal(st.peak_bytes, 1500);
    assert_true(st.reserved_bytes >= 1500);
    hr_mem_reset_peak(f.dev);
    hr_mem_get_stats(f.dev, &st);
    assert_int_equal(st.peak_bytes, 500);
    hr_mem_free(q, f.b);
    tear_down(&f);
}

static void ignore_line(void *ctx, hr_log_level level, int rank, const char *line)
{
    if (level == HR_LOG_WARN)
        atomic_fetch_add((atomic_int *)ctx, 1);
}

static void wrong_frees_are_reported_and_change_nothing(void **state)
{
    fixture f = set_up(0);
    hr_device *other;
    atomic_int warned = 0;
    char *p = alloc(f.a, 1000);
    hr_mem_stats before, after;
    OK(hr_device_open(test_backend(), NULL, &other));
    void *foreign = alloc(hr_device_default_stream(other), 10);
    void *freed = alloc(f.a, 5000);
    hr_mem_free(freed, f.a);
    hr_mem_get_stats(f.dev, &before);
    hr_log_set_sink(ignore_line, &warned);
    hr_mem_free(freed, f.a);   /* twice */
    hr_mem_free(p + 64, f.a);  /* inside */
    hr_mem_free(&f, f.a);      /* not from here */
    hr_mem_free(foreign, f.a); /* of another device */
    hr_mem_record_stream(foreign, f.a);
    assert_int_equal(warned, 5);
    hr_mem_free(foreign, NULL); /* found, though another device is current */
    assert_int_equal(warned, 5);
    hr_mem_get_stats(f.dev, &after);
    assert_memory_equal(&before, &after, sizeof after);
    hr_device_close(other);
    assert_int_equal(warned, 5);
    tear_down(&f); /* p still lives */
    assert_int_equal(warned, 6);
    hr_log_set_sink(NULL, NULL);
}

struct peek_args {
    const unsigned char *p;
    atomic_int *first;
};

static hr_status run_peek(const void *args, hr_team *team)
{
    const struct peek_args *a = args;
    atomic_store(a->first, a->p[0] << 8 | a->p[999]);
    return HR_OK;
}

static void launch_peek(hr_stream *s, const unsigned char *p, atomic_int *first)
{
    struct peek_args peek = {p, first};
    OK(hr_launch(s, "peek", run_peek, &peek, sizeof peek, NULL, 0));
}

static void poison_fills_fresh_and_freed_memory_in_stream_order(void **state)
{
    fixture f = set_up(1);
    gate g = GATE_INIT;
    atomic_int fresh = 0, used = 0, freed = 0;
    unsigned char *p = alloc(f.a, 1000);
    launch_peek(f.a, p, &fresh);
    launch_gate(f.a, &g);
    OK(hr_fill(f.a, p, 1, 1000));
    launch_peek(f.a, p, &used);
    hr_mem_free(p, f.a);
    launch_peek(f.a, p, &freed);
    open_gate(&g);
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(fresh, 0xffff);
    assert_int_equal(used, 0x0101);
    assert_int_equal(freed, 0xffff);
    tear_down(&f);
}

static void poison_makes_no_stream_wait_for_another(void **state)
{
    fixture f = set_up(1);
    gate g = GATE_INIT;
    atomic_int used = 0, again = 0;
    unsigned char *p = alloc(f.a, 1000);
    OK(hr_fill(f.a, p, 1, 1000));
    hr_mem_record_stream(p, f.b);
    order(f.e, f.a, f.b);
    launch_gate(f.b, &g);
    launch_peek(f.b, p, &used);
    hr_mem_free(p, f.a);
    OK(hr_stream_synchronize(f.a)); /* would hang if the fill waited for b */
    order(f.e, f.b, f.c);
    assert_ptr_equal(alloc(f.c, 1000), p);
    launch_peek(f.c, p, &again);
    open_gate(&g);
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(used, 0x0101);
    assert_int_equal(again, 0xffff); /* filled when it was handed out */
    tear_down(&f);
}

/* The clocks do not see the fill, and find b behind a already. */
static void poison_comes_before_what_waits_for_its_stream(void **state)
{
    enum { BYTES = 64 << 20 }; /* a fill that takes a while */
    fixture f = set_up(1);
    atomic_int kept = 0;
    work(f.a);
    order(f.e, f.a, f.b);
    unsigned char *p = alloc(f.a, BYTES);
    order(f.e, f.a, f.b);
    OK(hr_fill(f.b, p + BYTES - 1000, 1, 1000));
    OK(hr_device_synchronize(f.dev));
    launch_peek(f.b, p + BYTES - 1000, &kept);
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(kept, 0x0101);
    hr_mem_free(p, f.b);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_block_serves_its_own_stream_at_once),
        cmocka_unit_test(other_stream_gets_it_only_behind_an_event),
        cmocka_unit_test(event_from_before_the_last_use_is_not_enough),
        cmocka_unit_test(waits_queued_before_the_free_guard_the_block),
        cmocka_unit_test(recorded_streams_guard_the_block_too),
        cmocka_unit_test(finished_work_alone_orders_nothing),
        cmocka_unit_test(host_waits_order_all_later_launches),
        cmocka_unit_test(free_without_a_stream_goes_by_the_alloc),
        cmocka_unit_test(stream_that_is_gone_guards_nothing),
        cmocka_unit_test(smaller_request_may_borrow_a_larger_block),
        cmocka_unit_test(blocks_never_overlap_and_hold_what_was_asked),
        cmocka_unit_test(limit_names_request_live_and_limit),
        cmocka_unit_test(impossible_sizes_are_no_memory),
        cmocka_unit_test(stats_count_live_peak_and_reserved),
        cmocka_unit_test(wrong_frees_are_reported_and_change_nothing),
        cmocka_unit_test(poison_fills_fresh_and_freed_memory_in_stream_order),
        cmocka_unit_test(poison_makes_no_stream_wait_for_another),
        cmocka_unit_test(poison_comes_before_what_waits_for_its_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
