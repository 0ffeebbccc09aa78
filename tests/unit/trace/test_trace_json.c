/* The trace file, read back by a parser that is not ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/trace.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static int make(void **state)
{
    strcpy(path, "/tmp/headrace_trace_XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0)
        return -1;
    close(fd);
    return hr_timeline_create(16, (hr_timeline **)state) == HR_OK ? 0 : -1;
}

static int destroy(void **state)
{
    unlink(path);
    hr_timeline_destroy(*state);
    return 0;
}

static json_t *written(const hr_timeline *t, const char *note)
{
    json_error_t error;
    assert_int_equal(hr_timeline_write_json(t, path, note), HR_OK);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("line %d: %s", error.line, error.text);
    return root;
}

/* The n-th event whose phase is `ph`. */
static json_t *event(json_t *root, const char *ph, int n)
{
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(root, "traceEvents"), i, e)
    {
        const char *got = json_string_value(json_object_get(e, "ph"));
        if (strcmp(got, ph) == 0 && n-- == 0)
            return e;
    }
    return NULL;
}

static const char *text(json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static void an_empty_timeline_is_a_valid_file(void **state)
{
    json_t *root = written(*state, NULL);
    assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 0);
    assert_null(json_object_get(json_object_get(root, "otherData"), "note"));
    json_decref(root);
}

static void spans_become_events_in_microseconds(void **state)
{
    hr_lane *lane;
    assert_int_equal(hr_timeline_lane(*state, 1, "compute", &lane), HR_OK);
    hr_lane_add(lane, &(hr_span){.begin_ns = 5000000,
                                 .end_ns = 5001500,
                                 .name = "moe \"dispatch\"",
                                 .layer = 2,
                                 .microbatch = -1,
                                 .kind = HR_SPAN_NODE,
                                 .dir = HR_DIR_BACKWARD});
    hr_lane_add(lane, &(hr_span){.begin_ns = 5002001, .end_ns = 5002002, .name = "n"});
    json_t *root = written(*state, "imitated link");
    json_t *x = event(root, "X", 0), *args = json_object_get(x, "args");
    assert_string_equal(text(x, "name"), "moe \"dispatch\"");
    assert_string_equal(text(x, "cat"), "node");
    assert_int_equal(json_integer_value(json_object_get(x, "pid")), 1);
    assert_true(json_number_value(json_object_get(x, "ts")) == 0.0);
    assert_true(json_number_value(json_object_get(x, "dur")) == 1.5);
    assert_string_equal(text(args, "direction"), "backward");
    assert_int_equal(json_integer_value(json_object_get(args, "layer")), 2);
    assert_null(json_object_get(args, "microbatch"));
    json_t *second = event(root, "X", 1);
    assert_true(json_number_value(json_object_get(second, "ts")) == 2.001);
    assert_true(json_number_value(json_object_get(second, "dur")) == 0.001);
    assert_null(event(root, "X", 2));
    assert_string_equal(text(json_object_get(root, "otherData"), "note"),
                        "imitated link");
    json_decref(root);
}

static void ranks_are_processes_and_lanes_are_threads(void **state)
{
    hr_lane *lane;
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(hr_timeline_lane(*state, rank, "compute", &lane), HR_OK);
        assert_int_equal(hr_timeline_lane(*state, rank, "communication", &lane), HR_OK);
    }
    json_t *root = written(*state, NULL);
    int processes = 0, threads = 0;
    json_t *m;
    for (int i = 0; (m = event(root, "M", i)); i++) {
        const char *named = text(json_object_get(m, "args"), "name");
        if (strcmp(text(m, "name"), "process_name") == 0)
            processes += strcmp(named, "rank 0") == 0 || strcmp(named, "rank 1") == 0;
        if (strcmp(text(m, "name"), "thread_name") == 0)
            threads += strcmp(named, "communication") == 0;
    }
    assert_int_equal(processes, 4);
    assert_int_equal(threads, 2);
    json_decref(root);
}

static void dropped_spans_are_told(void **state)
{
    hr_lane *lane;
    assert_int_equal(hr_timeline_lane(*state, 0, "compute", &lane), HR_OK);
    for (int i = 0; i < 20; i++)
        hr_lane_add(lane, &(hr_span){.begin_ns = i, .end_ns = i + 1, .name = "x"});
    json_t *root = written(*state, NULL);
    assert_string_equal(text(json_object_get(root, "otherData"), "dropped_spans"), "4");
    json_decref(root);
}

static void a_place_that_cannot_be_written_is_named(void **state)
{
    assert_int_equal(hr_timeline_write_json(*state, "/nowhere/trace.json", NULL),
                     HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "/nowhere/trace.json"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_timeline_is_a_valid_file),
        TEST(spans_become_events_in_microseconds),
        TEST(ranks_are_processes_and_lanes_are_threads),
        TEST(dropped_spans_are_told),
        TEST(a_place_that_cannot_be_written_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
