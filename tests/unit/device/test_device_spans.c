/* The timeline: a span a launch, a span a node, none for waiting. */
#include "device_kit.h"

typedef struct fixture {
    hr_device *dev;
    hr_timeline *t;
    hr_stream *a, *b;
} fixture;

static fixture set_up(void)
{
    fixture f;
    f.dev = open_device(
        &(hr_device_opts){HR_INIT(hr_device_opts), .rank = 2, .poison = -1});
    OK(hr_timeline_create(1000, &f.t));
    f.a = hr_device_default_stream(f.dev);
    f.b = new_stream(f.dev, "communication");
    OK(hr_device_set_timeline(f.dev, f.t));
    return f;
}

static void tear_down(fixture *f)
{
    hr_device_close(f->dev);
    hr_timeline_destroy(f->t);
    hr_mark_set(-1, -1);
}

static run_log notes;

static void work(hr_stream *s)
{
    atomic_store(&notes.n, 0);
    launch_note(s, &notes, 1);
}

/* The spans of `kind` on lane `lane`. */
static size_t spans(const fixture *f, int lane, hr_span_kind kind, hr_span *out)
{
    size_t n, found = 0;
    const hr_span *all = hr_lane_spans(hr_timeline_lane_at(f->t, lane), &n);
    for (size_t i = 0; i < n; i++)
        if (all[i].kind == kind)
            out[found++] = all[i];
    return found;
}

static void each_stream_has_a_lane_named_by_its_role(void **state)
{
    fixture f = set_up();
    hr_stream *late = new_stream(f.dev, "counts");
    assert_int_equal(hr_timeline_lanes(f.t), 3);
    const char *roles[] = {"compute", "communication", "counts"};
    for (int i = 0; i < 3; i++) {
        hr_lane *lane = hr_timeline_lane_at(f.t, i);
        assert_string_equal(hr_lane_role(lane), roles[i]);
        assert_int_equal(hr_lane_rank(lane), 2);
    }
    hr_stream_destroy(late);
    tear_down(&f);
}

static void node_runs_from_its_first_launch_to_its_last(void **state)
{
    fixture f = set_up();
    hr_span node[8], busy[8];
    hr_mark_set(-1, 5);
    work(f.a); /* of no node */
    hr_span_begin(f.a, &(hr_mark){"mlp", 3, -1, HR_DIR_BACKWARD});
    work(f.a);
    work(f.a);
    work(f.b); /* marked, but on another stream */
    hr_span_end(f.a);
    hr_span_begin(f.a, &(hr_mark){"next", 4, 6, HR_DIR_FORWARD});
    work(f.a);
    hr_span_end(f.a);
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(spans(&f, 0, HR_SPAN_BUSY, busy), 4);
    assert_int_equal(spans(&f, 0, HR_SPAN_NODE, node), 2);
    assert_string_equal(node[0].name, "mlp");
    assert_int_equal(node[0].layer, 3);
    assert_int_equal(node[0].microbatch, 5); /* taken from hr_mark_set */
    assert_int_equal(node[0].dir, HR_DIR_BACKWARD);
    assert_true(node[0].begin_ns == busy[1].begin_ns);
    assert_true(node[0].end_ns == busy[2].end_ns);
    assert_string_equal(node[1].name, "next");
    assert_int_equal(node[1].microbatch, 6);
    assert_true(node[1].begin_ns == busy[3].begin_ns);
    assert_string_equal(busy[1].name, "note");
    assert_int_equal(busy[1].layer, 3);
    assert_int_equal(busy[0].layer, -1);
    assert_int_equal(spans(&f, 1, HR_SPAN_NODE, node), 0);
    assert_int_equal(spans(&f, 1, HR_SPAN_BUSY, busy), 1);
    assert_int_equal(busy[0].layer, 3);
    tear_down(&f);
}

static void open_node_is_one_span_across_a_synchronize(void **state)
{
    fixture f = set_up();
    hr_span node[4];
    hr_span_begin(f.a, &(hr_mark){"node", -1, -1, HR_DIR_NONE});
    work(f.a);
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(spans(&f, 0, HR_SPAN_NODE, node), 0);
    work(f.a);
    hr_span_end(f.a);
    hr_span_begin(f.a, NULL); /* a node without launches has no span */
    hr_span_end(f.a);
    OK(hr_device_synchronize(f.dev));
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(spans(&f, 0, HR_SPAN_NODE, node), 1);
    hr_span_end(f.a); /* one too many */
    tear_down(&f);
}

static void waiting_for_an_event_is_not_busy(void **state)
{
    fixture f = set_up();
    hr_span busy_a[4], busy_b[4];
    gate g = GATE_INIT;
    hr_event *e = new_event(f.dev);
    launch_gate(f.a, &g);
    OK(hr_event_record(e, f.a));
    OK(hr_event_wait(e, f.b));
    work(f.b);
    open_gate(&g);
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(spans(&f, 0, HR_SPAN_BUSY, busy_a), 1);
    assert_int_equal(spans(&f, 1, HR_SPAN_BUSY, busy_b), 1);
    assert_true(busy_b[0].begin_ns >= busy_a[0].end_ns);
    tear_down(&f);
}

static hr_status run_transfer(const void *args, hr_team *team)
{
    hr_lane *lane = hr_kernel_lane();
    hr_span span = {
        .begin_ns = 1, .end_ns = 2, .name = "sent", .kind = HR_SPAN_TRANSFER};
    hr_lane_add(lane, &span);
    atomic_store(*(atomic_int *const *)args, lane != NULL);
    return HR_OK;
}

static void kernels_find_the_lane_of_their_stream(void **state)
{
    fixture f = set_up();
    hr_span sent[2];
    atomic_int has_lane = -1, *out = &has_lane;
    OK(hr_launch(f.b, "send", run_transfer, &out, sizeof out, NULL, 0));
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(has_lane, 1);
    assert_int_equal(spans(&f, 1, HR_SPAN_TRANSFER, sent), 1);
    OK(hr_device_set_timeline(f.dev, NULL));
    OK(hr_launch(f.b, "send", run_transfer, &out, sizeof out, NULL, 0));
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(has_lane, 0);
    assert_int_equal(spans(&f, 1, HR_SPAN_TRANSFER, sent), 1);
    assert_null(hr_kernel_lane());
    tear_down(&f);
}

static void marks_deeper_than_kept_still_match_their_ends(void **state)
{
    fixture f = set_up();
    hr_span node[4];
    for (int i = 0; i < 40; i++)
        hr_span_begin(f.b, &(hr_mark){"deep", i, 0, HR_DIR_NONE});
    for (int i = 0; i < 40; i++)
        hr_span_end(f.b);
    work(f.b);
    hr_span_begin(f.b, &(hr_mark){"flat", 1 << 20, 0, HR_DIR_NONE});
    work(f.b);
    hr_span_end(f.b);
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(spans(&f, 1, HR_SPAN_NODE, node), 1);
    assert_string_equal(node[0].name, "flat");
    assert_int_equal(node[0].layer, -1); /* more than a span can hold */
    tear_down(&f);
}

static void a_mark_without_a_name_is_a_node(void **state)
{
    fixture f = set_up();
    hr_span node[4];
    hr_span_begin(f.b, &(hr_mark){NULL, 3, 1, HR_DIR_FORWARD});
    work(f.b);
    hr_span_end(f.b);
    OK(hr_device_synchronize(f.dev));
    assert_int_equal(spans(&f, 1, HR_SPAN_NODE, node), 1);
    assert_non_null(node[0].name);
    assert_string_equal(node[0].name, "node");
    assert_int_equal(node[0].layer, 3);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stream_has_a_lane_named_by_its_role),
        cmocka_unit_test(node_runs_from_its_first_launch_to_its_last),
        cmocka_unit_test(open_node_is_one_span_across_a_synchronize),
        cmocka_unit_test(waiting_for_an_event_is_not_busy),
        cmocka_unit_test(kernels_find_the_lane_of_their_stream),
        cmocka_unit_test(marks_deeper_than_kept_still_match_their_ends),
        cmocka_unit_test(a_mark_without_a_name_is_a_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
