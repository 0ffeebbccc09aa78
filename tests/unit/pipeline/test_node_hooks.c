/* Hooks around a node: when they run, where, and what their failure does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "headrace/pipeline.h"
#include "support/backend.h"

typedef struct story {
    char told[256]; /* a word an event */
    const char *fails;
} story;

static hr_device *dev;
static hr_stream *comm;

static hr_status tell(story *s, const char *word)
{
    size_t at = strlen(s->told);
    snprintf(s->told + at, sizeof s->told - at, "%s%s%s ", word,
             hr_stream_current() == comm ? "@comm" : "", hr_range_depth() ? "!" : "");
    if (s->fails && strcmp(s->fails, word) == 0)
        return hr_fail(HR_ERR_CALLBACK, "told", "told to fail");
    return HR_OK;
}

static hr_status pre_forward(void *ctx)
{
    return tell(ctx, "pre-f");
}

static hr_status post_forward(void *ctx)
{
    return tell(ctx, "post-f");
}

static hr_status pre_backward(void *ctx)
{
    return tell(ctx, "pre-b");
}

static hr_status post_backward(void *ctx)
{
    return tell(ctx, "post-b");
}

static hr_status wgrad(void *ctx)
{
    return tell(ctx, "w");
}

static hr_status pass(hr_function *fn, hr_tensor *const *g, hr_tensor **dx)
{
    dx[0] = hr_tensor_retain(g[0]);
    return tell(*(story **)hr_function_ctx(fn), "b");
}

static const hr_function_class pass_class = {
    .name = "pass", .ctx_bytes = sizeof(story *), .backward = pass};

static hr_status forward(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    hr_function *fn;
    hr_status st = hr_function_create(&pass_class, in, 1, &fn);
    if (st < 0)
        return st;
    *(story **)hr_function_ctx(fn) = ctx;
    *n_out = 1;
    st = hr_tensor_alias(in[0], &out[0]);
    if (st >= 0)
        st = hr_function_finish(fn, out, 1);
    hr_status told = tell(ctx, "f");
    return st < 0 ? st : told;
}

static int setup(void **state)
{
    hr_stream_opts opts = {HR_INIT(hr_stream_opts), .name = "communication"};
    if (hr_device_open(test_backend(), NULL, &dev) < 0)
        return -1;
    hr_device_set_current(dev);
    return hr_stream_create(dev, &opts, &comm) < 0;
}

static int teardown(void **state)
{
    hr_mem_stats stats;
    if (hr_device_synchronize(dev) < 0)
        return -1;
    hr_mem_get_stats(dev, &stats);
    hr_device_close(dev);
    return stats.live_bytes != 0;
}

static hr_node *make(story *s, bool delayed)
{
    hr_node_wgrad work = {"w", wgrad, s};
    hr_node *node;
    hr_schedule_node_opts o = {HR_INIT(hr_schedule_node_opts),
                               .forward = forward,
                               .ctx = s,
                               .stream = comm,
                               .wgrads = &work,
                               .n_wgrads = delayed,
                               .pre_forward = pre_forward,
                               .post_forward = post_forward,
                               .pre_backward = pre_backward,
                               .post_backward = post_backward};
    assert_int_equal(hr_schedule_node_create(&o, &node), HR_OK);
    return node;
}

/* Forward, backward, weight gradients, as far as they go. */
static hr_status run(story *s, bool delayed)
{
    hr_node *node = make(s, delayed);
    hr_tensor *x, *const *y, *dx[HR_NODE_MAX] = {0};
    int n;
    hr_status st = hr_tensor_zeros(HR_F32, 1, (int64_t[]){4}, &x);
    if (st >= 0) /* it is zero before `comm` reads it */
        st = hr_device_synchronize(dev);
    if (st >= 0)
        st = hr_tensor_set_requires_grad(x, true);
    if (st >= 0)
        st = hr_node_forward(node, &x, 1, &y, &n);
    if (st >= 0)
        st = hr_node_backward(node, &x, 1, dx, &n);
    if (st >= 0) {
        hr_tensor_release(dx[0]);
        st = hr_node_backward_dw(node);
    } else {
        assert_int_equal(n, 0);
    }
    hr_node_destroy(node);
    hr_tensor_release(x);
    return st;
}

static void hooks_stand_outside_of_stream_and_range(void **state)
{
    story s = {0};
    assert_int_equal(run(&s, false), HR_OK);
    assert_string_equal(s.told, "pre-f f@comm! post-f pre-b b@comm! post-b ");
}

static void last_hook_waits_for_delayed_weight_gradients(void **state)
{
    story s = {0};
    assert_int_equal(run(&s, true), HR_OK);
    assert_string_equal(s.told, "pre-f f@comm! post-f pre-b b@comm! w@comm! post-b ");
}

static void failing_hook_ends_the_call_and_says_which(void **state)
{
    static const struct {
        const char *fails, *told, *says;
    } c[] = {
        {"pre-f", "pre-f ", "pre-forward"},
        {"f", "pre-f f@comm! ", "forward"}, /* no post hook after a failure */
        {"post-f", "pre-f f@comm! post-f ", "post-forward"},
        {"pre-b", "pre-f f@comm! post-f pre-b ", "pre-backward"},
        {"post-b", "pre-f f@comm! post-f pre-b b@comm! post-b ", "post-backward"},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        story s = {.fails = c[i].fails};
        assert_int_equal(run(&s, false), HR_ERR_CALLBACK);
        assert_string_equal(s.told, c[i].told);
        assert_non_null(strstr(hr_last_error(), c[i].says));
        assert_string_equal(hr_last_reason(), "told");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hooks_stand_outside_of_stream_and_range),
        TEST(last_hook_waits_for_delayed_weight_gradients),
        TEST(failing_hook_ends_the_call_and_says_which),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
