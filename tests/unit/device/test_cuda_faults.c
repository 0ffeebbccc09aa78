/* The n-th call of the CUDA runtime fails, for every n: whoever called Headrace gets a status with a
 * sentence, or learns it at the next synchronise; nothing hangs, and nothing is left in the runtime. */
#include "cuda_kit.h"

#include "device/cuda/cudart.h"
#include "device/native_launch.h"

static double_api api;

static hr_status enqueue_fill(hr_stream *s, const void *args)
{
    void *p = *(void *const *)args;
    return hr__cuda_status(hr__cuda(s),
                           hr__cuda(s)->cudaMemsetAsync(p, 7, 64, hr_stream_native(s)),
                           "cudaMemsetAsync");
}

static hr_status launch_native(hr_stream *s, void *p)
{
    hr__native_launch n = {.name = "native",
                           .kind = HR_SPAN_TRANSFER,
                           .enqueue = enqueue_fill,
                           .args = &p};
    return hr__launch_native(s, &n);
}

#define TRY(expr)                                                                      \
    do {                                                                               \
        hr_status st_ = (expr);                                                        \
        if (st_ < 0)                                                                   \
            return st_;                                                                \
    } while (0)

/* All that a device does: memory on one stream, used and freed on another behind an event. */
static hr_status work_with(hr_device *dev, hr_timeline *t, char *out)
{
    hr_stream *a = hr_device_default_stream(dev), *b;
    hr_event *e;
    void *p, *q;
    run_log log = {0};
    struct note_args note = {&log, 1};
    TRY(hr_device_set_timeline(dev, t));
    TRY(hr_stream_create(dev, NULL, &b));
    TRY(hr_event_create(dev, &e));
    TRY(hr_mem_alloc(a, 64, &p));
    TRY(hr_mem_alloc(a, 6 << 20, &q)); /* a slab of its own */
    TRY(launch_native(a, p));
    TRY(hr_launch(a, "note", run_note, &note, sizeof note, NULL, 0));
    TRY(hr_event_record(e, a));
    TRY(hr_event_wait(e, b));
    TRY(hr_copy(b, q, p, 64));
    TRY(hr_copy(b, out, q, 64));
    hr_mem_record_stream(q, b);
    hr_mem_free(q, a);
    hr_mem_free(p, b);
    TRY(hr_event_record(e, b));
    TRY(hr_event_synchronize(e));
    hr_event_destroy(e);
    hr_stream_destroy(b);
    hr_status st = hr_device_synchronize(dev);
    if (st == HR_OK && log.n != 1)
        return hr_fail(HR_ERR_MISMATCH, "lost", "the kernel ran %d times", log.n);
    return st;
}

static hr_status run_program(char *out)
{
    hr_device *dev;
    hr_timeline *t;
    OK(hr_timeline_create(100, &t));
    hr_status st = hr_device_open(
        "cuda", &(hr_device_opts){HR_INIT(hr_device_opts), .poison = -1}, &dev);
    if (st == HR_OK)
        st = work_with(dev, t, out);
    hr_device_close(dev);
    hr_timeline_destroy(t);
    return st;
}

static void ignore_line(void *ctx, hr_log_level level, int rank, const char *line) {}

/* How many calls a run without failures takes. */
static long sweep(int code)
{
    for (long n = 1;; n++) {
        char out[64] = "";
        hr_error_clear();
        api.fail_at(n, code);
        hr_status st = run_program(out);
        bool failed = api.failed();
        api.fail_at(0, 0);
        api.revive();
        assert_nothing_lives(&api);
        if (st < 0) {
            assert_true(failed);
            assert_true(st == HR_ERR_DEVICE || st == HR_ERR_NOMEM ||
                        st == HR_ERR_UNSUPPORTED);
            assert_true(strlen(hr_last_error()) > 20);
        } else {
            assert_int_equal(out[63],
                             7); /* what failed was of no account, or closing */
        }
        if (!failed)
            return n - 1;
    }
}

static void each_call_may_be_refused(void **state)
{
    assert_true(sweep(cudaErrorInvalidResourceHandle) > 50);
}

static void each_call_may_find_no_memory(void **state)
{
    assert_true(sweep(cudaErrorMemoryAllocation) > 50);
}

static void each_call_may_find_the_context_dead(void **state)
{
    assert_true(sweep(cudaErrorIllegalAddress) > 50);
}

static void managed_memory_too(void **state)
{
    setenv("HEADRACE_CUDA_MEMORY", "managed", 1);
    sweep(cudaErrorInvalidResourceHandle);
    sweep(cudaErrorLaunchFailure);
    unsetenv("HEADRACE_CUDA_MEMORY");
}

static int load_double(void **state)
{
    api = get_double();
    unsetenv("HEADRACE_CUDA_MEMORY");
    hr_log_set_sink(ignore_line, NULL); /* blocks live when a failed run ends */
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_may_be_refused),
        cmocka_unit_test(each_call_may_find_no_memory),
        cmocka_unit_test(each_call_may_find_the_context_dead),
        cmocka_unit_test(managed_memory_too),
    };
    return cmocka_run_group_tests(tests, load_double, NULL);
}
