/* The stream checker: what no event orders is found, what one does is not. */
#include "device_kit.h"

#include <malloc.h>

typedef struct fixture {
    hr_device *dev;
    hr_stream *a, *b;
    hr_event *e;
    char *p;
} fixture;

static void swallow(void *ctx, hr_log_level level, int rank, const char *line) {}

static fixture set_up(void)
{
    fixture f;
    void *p;
    setenv("HEADRACE_CHECK", "streams", 1);
    f.dev = open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .poison = -1});
    unsetenv("HEADRACE_CHECK");
    hr_log_set_sink(swallow, NULL);
    f.a = hr_device_default_stream(f.dev);
    f.b = new_stream(f.dev, "b");
    f.e = new_event(f.dev);
    OK(hr_mem_alloc(f.a, 1024, &p));
    f.p = p;
    return f;
}

static void tear_down(fixture *f)
{
    hr_device_close(f->dev);
    hr_log_set_sink(NULL, NULL);
}

static hr_status run_nothing(const void *args, hr_team *team)
{
    return HR_OK;
}

static void touch(hr_stream *s, const char *name, void *p, size_t n, hr_access access)
{
    OK(hr_launch(s, name, run_nothing, NULL, 0, &(hr_operand){p, n, access}, 1));
}

static void order(fixture *f, hr_stream *first, hr_stream *then)
{
    OK(hr_event_record(f->e, first));
    OK(hr_event_wait(f->e, then));
}

static void assert_found(fixture *f, const char *reason, const char *name)
{
    assert_int_equal(hr_device_synchronize(f->dev), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), reason);
    assert_non_null(strstr(hr_last_error(), name));
    assert_non_null(strstr(hr_last_error(), "'b'"));
}

static void read_beside_an_unordered_write_is_found(void **state)
{
    fixture f = set_up();
    touch(f.a, "producer", f.p, 1024, HR_WRITE);
    touch(f.b, "consumer", f.p + 512, 8, HR_READ);
    assert_found(&f, "unordered", "'producer'");
    assert_non_null(strstr(hr_last_error(), "'consumer'"));
    tear_down(&f);
}

static void write_beside_an_unordered_read_is_found(void **state)
{
    fixture f = set_up();
    touch(f.a, "w", f.p, 1024, HR_WRITE);
    order(&f, f.a, f.b);
    touch(f.b, "reader", f.p, 1024, HR_READ);
    touch(f.b, "reader", f.p, 1024, HR_READ);
    touch(f.a, "again", f.p, 1, HR_READ_WRITE);
    assert_found(&f, "unordered", "'reader'");
    tear_down(&f);
}

static void copies_and_fills_are_checked_too(void **state)
{
    fixture f = set_up();
    char host[8];
    OK(hr_fill(f.a, f.p, 0, 1024));
    OK(hr_copy(f.b, host, f.p, 8));
    assert_found(&f, "unordered", "'fill'");
    tear_down(&f);
}

static void event_from_before_the_write_does_not_order_it(void **state)
{
    fixture f = set_up();
    touch(f.a, "first", f.p, 1024, HR_WRITE);
    order(&f, f.a, f.b);
    touch(f.a, "second", f.p, 1024, HR_WRITE);
    touch(f.b, "consumer", f.p, 1024, HR_READ);
    assert_found(&f, "unordered", "'second'");
    tear_down(&f);
}

static void write_to_a_part_does_not_hide_the_rest(void **state)
{
    fixture f = set_up();
    touch(f.a, "producer", f.p, 1024, HR_WRITE);
    touch(f.a, "corner", f.p, 8, HR_WRITE);
    touch(f.b, "consumer", f.p + 512, 8, HR_READ);
    assert_found(&f, "unordered", "'producer'");
    tear_down(&f);
}

static void ordered_and_disjoint_accesses_pass(void **state)
{
    fixture f = set_up();
    void *q;
    touch(f.a, "w", f.p, 512, HR_WRITE);
    touch(f.b, "other half", f.p + 512, 512, HR_WRITE);
    order(&f, f.a, f.b);
    touch(f.b, "r", f.p, 1024, HR_READ);
    order(&f, f.b, f.a);
    touch(f.a, "w", f.p, 1024, HR_WRITE);
    order(&f, f.a, f.b);
    touch(f.a, "both read", f.p, 1024, HR_READ);
    touch(f.b, "both read", f.p, 1024, HR_READ);
    OK(hr_stream_synchronize(f.b)); /* the host's wait orders too */
    touch(f.a, "w", f.p, 1024, HR_WRITE);
    hr_operand in_place[] = {{f.p, 1024, HR_READ}, {f.p, 1024, HR_WRITE}};
    OK(hr_launch(f.a, "in place", run_nothing, NULL, 0, in_place, 2));
    hr_mem_free(f.p, f.a);
    OK(hr_mem_alloc(f.a, 1024, &q));
    assert_ptr_equal(q, f.p);
    touch(f.a, "new life", q, 1024, HR_READ);
    hr_mem_free(q, f.a);
    OK(hr_device_synchronize(f.dev));
    tear_down(&f);
}

static void use_after_free_is_found(void **state)
{
    fixture f = set_up();
    hr_mem_free(f.p, f.a);
    order(&f, f.a, f.b);
    touch(f.b, "late", f.p + 100, 8, HR_READ);
    assert_found(&f, "use_after_free", "'late'");
    tear_down(&f);
}

static void free_that_forgets_a_stream_is_found(void **state)
{
    fixture f = set_up();
    touch(f.a, "w", f.p, 1024, HR_WRITE);
    order(&f, f.a, f.b);
    touch(f.b, "sender", f.p, 1024, HR_READ);
    hr_mem_free(f.p, f.a);
    assert_found(&f, "unguarded_free", "'sender'");
    tear_down(&f);
}

static void recorded_stream_guards_the_free(void **state)
{
    fixture f = set_up();
    touch(f.a, "w", f.p, 1024, HR_WRITE);
    order(&f, f.a, f.b);
    touch(f.b, "sender", f.p, 1024, HR_READ);
    hr_mem_record_stream(f.p, f.b);
    hr_mem_free(f.p, f.a);
    OK(hr_device_synchronize(f.dev));
    tear_down(&f);
}

static void block_has_no_name_of_its_last_life(void **state)
{
    fixture f = set_up();
    void *q;
    hr_mem_set_name(f.p, 1024, "first life");
    hr_mem_set_name(f.p + 512, 512, "half of it");
    hr_mem_free(f.p, f.a);
    OK(hr_mem_alloc(f.a, 1024, &q));
    assert_ptr_equal(q, f.p);
    hr_mem_set_name(q, 512, "second life");
    touch(f.a, "producer", q, 1024, HR_WRITE);
    touch(f.b, "consumer", f.p + 600, 8, HR_READ);
    assert_found(&f, "unordered", "memory of");
    assert_null(strstr(hr_last_error(), "half of it"));
    tear_down(&f);
}

static void forgotten_memory_begins_anew(void **state)
{
    static char foreign[64];
    fixture f = set_up();
    touch(f.a, "producer", foreign, 64, HR_WRITE);
    hr_mem_forget(f.dev, foreign, 64);
    touch(f.b, "consumer", foreign, 64, HR_READ);
    OK(hr_device_synchronize(f.dev));
    tear_down(&f);
}

static void event_that_lost_no_order_is_not_stale(void **state)
{
    fixture f = set_up();
    hr_event *other = new_event(f.dev);
    touch(f.a, "producer", f.p, 512, HR_WRITE);
    order(&f, f.a, f.b);
    OK(hr_event_record(f.e, f.a)); /* again, behind the first */
    OK(hr_event_record(other, f.b));
    OK(hr_event_wait(f.e, f.b));
    touch(f.b, "consumer", f.p, 512, HR_READ);
    OK(hr_device_synchronize(f.dev));
    touch(f.a, "later", f.p, 512, HR_WRITE);
    touch(f.b, "consumer", f.p, 512, HR_READ);
    assert_found(&f, "unordered", "'later'");
    tear_down(&f);
}

/* One step of a long run: blocks, events, host memory that is never the same. */
static void step(fixture *f, char *host, int i)
{
    void *p;
    OK(hr_mem_alloc(f->a, 2000, &p));
    touch(f->a, "make", p, 2000, HR_WRITE);
    for (int k = 0; k < 8; k++)
        touch(f->a, "part", (char *)p + 100L * k, 50, HR_READ_WRITE);
    order(f, f->a, f->b);
    touch(f->b, "send", p, 2000, HR_READ);
    touch(f->b, "host", host + 64L * i, 32, HR_WRITE);
    touch(f->a, "long", f->p + i % 1000, 8, HR_READ);
    order(f, f->b, f->a);
    hr_mem_free(p, f->a);
}

static void memory_does_not_grow_with_the_run(void **state)
{
    enum { WARM = 200, STEPS = 2000 };
    fixture f = set_up();
    char *host = malloc(64L * STEPS);
    size_t warm = 0;
    assert_non_null(host);
    for (int i = 0; i < STEPS; i++) {
        if (i == WARM)
            warm = mallinfo2().uordblks;
        step(&f, host, i);
    }
    OK(hr_device_synchronize(f.dev));
    assert_in_range(mallinfo2().uordblks, 0, warm + 65536);
    free(host);
    tear_down(&f);
}

/* ---- HEADRACE_CHECK ---- */
static hr_status open_with(const char *words, hr_device **out)
{
    setenv("HEADRACE_CHECK", words, 1);
    hr_status st = hr_device_open(test_backend(), NULL, out);
    unsetenv("HEADRACE_CHECK");
    return st;
}

/* Does a device that was opened with these words find two writes that nothing orders? */
static bool checks_with(const char *words)
{
    fixture f = {0};
    char bytes[8];
    OK(open_with(words, &f.dev));
    hr_log_set_sink(swallow, NULL);
    f.b = new_stream(f.dev, "b");
    touch(hr_device_default_stream(f.dev), "a", bytes, sizeof bytes, HR_WRITE);
    touch(f.b, "b", bytes, sizeof bytes, HR_WRITE);
    bool found = hr_device_synchronize(f.dev) < 0;
    tear_down(&f);
    return found;
}

static void the_environment_names_checks_by_whole_words(void **state)
{
    hr_device *dev;
    assert_true(checks_with("streams"));
    assert_true(checks_with(",streams,"));
    assert_false(checks_with(""));
    const char *wrong[] = {"nostreams", "stream", "streams2", "streams,memory",
                           "Streams"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(open_with(wrong[i], &dev), HR_ERR_INVALID);
        assert_null(dev);
        assert_string_equal(hr_last_reason(), "check_word");
        assert_non_null(strstr(hr_last_error(), "there is 'streams'"));
    }
    assert_int_equal(open_with("streams,memory,x", &dev), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "no check 'memory';"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_beside_an_unordered_write_is_found),
        cmocka_unit_test(write_beside_an_unordered_read_is_found),
        cmocka_unit_test(copies_and_fills_are_checked_too),
        cmocka_unit_test(event_from_before_the_write_does_not_order_it),
        cmocka_unit_test(write_to_a_part_does_not_hide_the_rest),
        cmocka_unit_test(ordered_and_disjoint_accesses_pass),
        cmocka_unit_test(use_after_free_is_found),
        cmocka_unit_test(free_that_forgets_a_stream_is_found),
        cmocka_unit_test(recorded_stream_guards_the_free),
        cmocka_unit_test(block_has_no_name_of_its_last_life),
        cmocka_unit_test(forgotten_memory_begins_anew),
        cmocka_unit_test(event_that_lost_no_order_is_not_stale),
        cmocka_unit_test(memory_does_not_grow_with_the_run),
        cmocka_unit_test(the_environment_names_checks_by_whole_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
