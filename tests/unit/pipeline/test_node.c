/* Schedule nodes beyond what the recorded traces cover: real bytes and their claims, misuse, and
 * spans. The node under test computes y = 2 x. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "headrace/pipeline.h"
#include "support/backend.h"

enum { N = 6 };

static hr_device *dev;
static hr_stream *comm;
static hr_event *event;

static hr_status twice_kernel(const void *args, hr_team *team)
{
    float *const *a = args;
    for (int i = 0; i < N; i++)
        a[1][i] = 2 * a[0][i];
    return HR_OK;
}

static hr_status twice(hr_tensor *x, hr_tensor **out)
{
    hr_status st = hr_tensor_check(x, "twice");
    if (st >= 0)
        st = hr_tensor_create(HR_F32, 1, (int64_t[]){N}, out);
    if (st < 0)
        return st;
    float *args[] = {hr_tensor_f32(x), hr_tensor_f32(*out)};
    hr_operand use[] = {{args[0], N * sizeof(float), HR_READ},
                        {args[1], N * sizeof(float), HR_WRITE}};
    return hr_launch(hr_stream_current(), "twice", twice_kernel, args, sizeof args, use,
                     2);
}

static hr_status twice_backward(hr_function *fn, hr_tensor *const *grad_out,
                                hr_tensor **grad_in)
{
    return twice(grad_out[0], &grad_in[0]);
}

static const hr_function_class twice_class = {
    .name = "twice", .ctx_bytes = 8, .backward = twice_backward};

/* What the node's function is told to do. */
typedef struct script {
    bool save_input, keep_as_output;
    hr_status fail_with; /* without a word */
    int outputs;
} script;

static hr_status forward(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    script *s = ctx;
    hr_function *fn;
    if (s->fail_with < 0)
        return s->fail_with;
    *n_out = s->outputs ? s->outputs : 1;
    if (s->keep_as_output) {
        out[0] = hr_tensor_retain(in[0]);
        return HR_OK;
    }
    hr_status st = hr_function_create(&twice_class, in, 1, &fn);
    if (st >= 0 && s->save_input)
        st = hr_function_save(fn, in[0], NULL);
    if (st >= 0)
        st = twice(in[0], &out[0]);
    if (st < 0) {
        hr_function_abandon(fn);
        return st;
    }
    return hr_function_finish(fn, &out[0], 1);
}

static int setup(void **state)
{
    hr_stream_opts opts = {HR_INIT(hr_stream_opts), .name = "communication"};
    if (hr_device_open(test_backend(), NULL, &dev) < 0)
        return -1;
    hr_device_set_current(dev);
    return hr_stream_create(dev, &opts, &comm) < 0 || hr_event_create(dev, &event) < 0;
}

static int teardown(void **state)
{
    hr_mem_stats stats;
    hr_device_set_current(dev);
    if (hr_device_synchronize(dev) < 0)
        return -1;
    hr_mem_get_stats(dev, &stats);
    hr_device_close(dev);
    return stats.live_bytes != 0; /* nothing leaks, in any test */
}

static hr_node *make(script *s, bool free_input, hr_stream *stream)
{
    hr_node *node;
    assert_int_equal(
        hr_schedule_node_create(
            &(hr_schedule_node_opts){HR_INIT(hr_schedule_node_opts), .name = "twice",
                                     .forward = forward, .ctx = s, .stream = stream,
                                     .event = event, .free_input = free_input},
            &node),
        HR_OK);
    return node;
}

static hr_tensor *vector(float first, bool requires_grad)
{
    float v[N];
    hr_tensor *t;
    for (int i = 0; i < N; i++)
        v[i] = first + (float)i;
    assert_int_equal(hr_tensor_create(HR_F32, 1, (int64_t[]){N}, &t), HR_OK);
    assert_int_equal(hr_tensor_write(t, v, sizeof v), HR_OK);
    assert_int_equal(hr_tensor_set_requires_grad(t, requires_grad), HR_OK);
    return t;
}

static float element(hr_tensor *t, int i)
{
    float v[N];
    assert_int_equal(hr_device_synchronize(dev), HR_OK);
    assert_int_equal(hr_tensor_read(t, v, sizeof v), HR_OK);
    return v[i];
}

static void chain_of_two_nodes_gives_output_and_gradient(void **state)
{
    script s = {0};
    hr_node *a = make(&s, false, hr_stream_current()), *b = make(&s, true, comm);
    hr_tensor *x = vector(1, true), *g = vector(1, false);
    hr_tensor *const *ya, *const *yb, *db[HR_NODE_MAX], *da[HR_NODE_MAX];
    int n;
    assert_int_equal(hr_node_forward(a, &x, 1, &ya, &n), HR_OK);
    assert_int_equal(hr_node_forward(b, ya, n, &yb, &n), HR_OK);
    assert_int_equal(n, 1);
    assert_float_equal(element(yb[0], 2), 12.0F, 0);
    assert_int_equal(hr_node_backward(b, &g, 1, db, &n), HR_OK);
    assert_int_equal(hr_node_backward(a, db, n, da, &n), HR_OK);
    assert_float_equal(element(da[0], 3), 16.0F, 0);
    hr_tensor_release(db[0]);
    hr_tensor_release(da[0]);
    hr_tensor_release(x);
    hr_tensor_release(g);
    hr_node_destroy(a);
    hr_node_destroy(b);
}

static void freed_input_gives_up_its_bytes(void **state)
{
    script s = {0};
    hr_node *node = make(&s, true, comm);
    hr_tensor *x = vector(1, true), *const * y;
    int n;
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_OK);
    assert_true(hr_tensor_dropped(x));
    assert_int_equal(hr_storage_claims(hr_tensor_storage(x)), 0);
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), "freed");
    hr_tensor_release(x);
    hr_node_destroy(node);
}

static void freed_input_stays_for_whom_saved_it(void **state)
{
    script s = {.save_input = true};
    hr_node *node = make(&s, true, comm);
    hr_tensor *x = vector(1, true), *other, *g = vector(1, false), *const * y;
    hr_tensor *dx[HR_NODE_MAX];
    int n;
    assert_int_equal(hr_tensor_alias(x, &other), HR_OK);
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_OK);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(x)), 2); /* saved, other */
    assert_float_equal(element(other, 0), 1.0F, 0);
    assert_int_equal(hr_node_backward(node, &g, 1, dx, &n), HR_OK);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(x)), 1);
    hr_tensor_release(other);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(x)), 0);
    hr_tensor_release(dx[0]);
    hr_tensor_release(x);
    hr_tensor_release(g);
    hr_node_destroy(node);
}

static void input_that_goes_out_as_output_keeps_its_bytes(void **state)
{
    script s = {.keep_as_output = true};
    hr_node *node = make(&s, true, comm);
    hr_tensor *x = vector(5, true), *const * y;
    int n;
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_OK);
    hr_tensor_release(x);
    assert_float_equal(element(y[0], 1), 6.0F, 0);
    hr_node_destroy(node);
}

static void spent_node_refuses_and_says_so(void **state)
{
    script s = {0};
    hr_node *node = make(&s, false, comm);
    hr_tensor *x = vector(1, true), *g = vector(1, false), *const * y, *dx[HR_NODE_MAX];
    int n;
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_OK);
    assert_int_equal(hr_node_backward(node, &g, 1, dx, &n), HR_OK);
    hr_tensor_release(dx[0]);
    assert_true(hr_node_spent(node));
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), "spent");
    assert_int_equal(hr_node_backward(node, &g, 1, dx, &n), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), "spent");
    assert_int_equal(hr_node_backward(node, &g, 0, dx, &n), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), "grad_count");
    assert_int_equal(hr_node_get_grad(node, dx, &n), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), "no_inputs");
    assert_int_equal(hr_node_get_output(node, &y, &n), HR_OK);
    assert_null(y);
    assert_int_equal(hr_node_release(node), HR_ERR_STATE);
    hr_tensor_release(x);
    hr_tensor_release(g);
    hr_node_destroy(node);
}

static void wrong_number_of_gradients_names_both_numbers(void **state)
{
    script s = {0};
    hr_node *node = make(&s, false, comm);
    hr_tensor *x = vector(1, true), *g = vector(1, false), *const * y, *dx[HR_NODE_MAX];
    hr_tensor *two[] = {g, g};
    int n;
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_OK);
    assert_int_equal(hr_node_backward(node, two, 2, dx, &n), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "grad_count");
    assert_string_equal(hr_last_error(),
                        "node 'twice' backward: 1 output but 2 output gradients");
    assert_int_equal(hr_node_backward(node, two, 1, dx, &n), HR_OK); /* as before */
    hr_tensor_release(dx[0]);
    hr_tensor_release(x);
    hr_tensor_release(g);
    hr_node_destroy(node);
}

static void silent_callback_failure_gets_a_sentence(void **state)
{
    script s = {.fail_with = HR_ERR_IO};
    hr_node *node = make(&s, false, comm);
    hr_tensor *x = vector(1, true), *const * y;
    int n;
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_ERR_CALLBACK);
    assert_string_equal(hr_last_reason(), "callback");
    assert_non_null(strstr(hr_last_error(), "twice"));
    assert_ptr_equal(hr_stream_current(), hr_device_default_stream(dev));
    assert_int_equal(hr_range_depth(), 0);
    hr_tensor_release(x);
    hr_node_destroy(node);
}

static void too_many_inputs_or_outputs_are_refused(void **state)
{
    script s = {.outputs = HR_NODE_MAX + 1};
    hr_node *node = make(&s, false, comm);
    hr_tensor *x = vector(1, true), *many[HR_NODE_MAX + 1], *const * y;
    int n;
    for (int i = 0; i <= HR_NODE_MAX; i++)
        many[i] = x;
    assert_int_equal(hr_node_forward(node, many, HR_NODE_MAX + 1, &y, &n),
                     HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "input_count");
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_ERR_CALLBACK);
    assert_string_equal(hr_last_reason(), "output_count");
    hr_tensor_release(x);
    hr_node_destroy(node);
}

static int done_after;
static hr_status count_wgrad(void *ctx)
{
    ++*(int *)ctx;
    return HR_OK;
}

static hr_status wgrads_are_done(void *ctx)
{
    done_after = *(int *)ctx;
    return HR_OK;
}

static hr_status no_forward(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                            hr_tensor **out, int *n_out)
{
    return HR_OK;
}

static void delayed_weight_gradients_run_once(void **state)
{
    int ran = 0;
    hr_node *node;
    hr_node_wgrad list[] = {{"a", count_wgrad, &ran}, {"b", count_wgrad, &ran}};
    assert_int_equal(hr_schedule_node_create(
                         &(hr_schedule_node_opts){
                             HR_INIT(hr_schedule_node_opts), .forward = no_forward,
                             .ctx = &ran, .stream = comm, .wgrads = list, .n_wgrads = 2,
                             .wgrad_done = wgrads_are_done},
                         &node),
                     HR_OK);
    memset(list, 0, sizeof list); /* the list was copied */
    assert_int_equal(hr_node_backward_dw(node), HR_OK);
    assert_int_equal(ran, 2);
    assert_int_equal(done_after, 2);
    assert_int_equal(hr_node_backward_dw(node), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), "wgrad_already_run");
    assert_int_equal(ran, 2);
    hr_node_destroy(node);
}

static void launches_of_a_node_make_its_span(void **state)
{
    script s = {0};
    hr_node *node = make(&s, false, comm);
    hr_tensor *x = vector(1, true), *const * y;
    hr_timeline *t;
    size_t n_spans;
    int n, found = 0;
    assert_int_equal(hr_timeline_create(64, &t), HR_OK);
    assert_int_equal(hr_device_set_timeline(dev, t), HR_OK);
    hr_node_set_mark(node, 3, 7);
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_OK);
    assert_int_equal(hr_device_synchronize(dev), HR_OK);
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        const hr_span *span = hr_lane_spans(hr_timeline_lane_at(t, i), &n_spans);
        for (size_t k = 0; k < n_spans; k++)
            found += span[k].kind == HR_SPAN_NODE &&
                     strcmp(span[k].name, "twice") == 0 && span[k].layer == 3 &&
                     span[k].microbatch == 7 && span[k].dir == HR_DIR_FORWARD;
    }
    assert_int_equal(found, 1);
    assert_int_equal(hr_device_set_timeline(dev, NULL), HR_OK);
    hr_timeline_destroy(t);
    hr_tensor_release(x);
    hr_node_destroy(node);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(chain_of_two_nodes_gives_output_and_gradient),
        TEST(freed_input_gives_up_its_bytes),
        TEST(freed_input_stays_for_whom_saved_it),
        TEST(input_that_goes_out_as_output_keeps_its_bytes),
        TEST(spent_node_refuses_and_says_so),
        TEST(wrong_number_of_gradients_names_both_numbers),
        TEST(silent_callback_failure_gets_a_sentence),
        TEST(too_many_inputs_or_outputs_are_refused),
        TEST(delayed_weight_gradients_run_once),
        TEST(launches_of_a_node_make_its_span),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
