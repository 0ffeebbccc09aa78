/* Groups over NCCL where the n-th call of CUDA or of NCCL fails, for every n: each run ends, with a sentence if it
 * failed, and nothing is left. */
#include "doubles/cudart/cudart_double.h"
#include "nccl_kit.h"

#include <sched.h>

enum { COUNT = 64 };

static hr_status exchange(hr_group *g, hr_stream *s)
{
    void *gpu;
    float host[COUNT] = {0}, sum[COUNT];
    int n = hr_group_size(g), me = hr_group_rank(g);
    host[0] = (float)(me + 1);
    TRY(on_gpu(host, sizeof host, &gpu));
    hr_p2p ring[] = {{true, (me + 1) % n, gpu, 8},
                     {false, (me + n - 1) % n, (char *)gpu + 64, 8}};
    TRY(hr_group_batch(g, ring, 2, s));
    TRY(hr_all_reduce(g, gpu, gpu, 1, HR_F32, HR_SUM, s));
    TRY(hr_all_reduce(g, host, host, 1, HR_F32, HR_SUM, s));
    TRY(from_gpu(sum, gpu, sizeof sum));
    hr_mem_free(gpu, s);
    CHECK(sum[0] == (float)(n * (n + 1) / 2) && host[0] == sum[0]);
    return HR_OK;
}

static hr_status all_of_it(hr_group *world, void *arg)
{
    hr_group *g = NULL;
    hr_window *w = NULL;
    hr_stream *s = hr_stream_current();
    hr_status st = hr_group_create(world, NULL, 0, &g);
    if (st >= 0)
        st = exchange(g, s);
    if (st >= 0)
        st = hr_window_create(g, 64, s, &w);
    if (st >= 0)
        st = hr_stream_synchronize(s);
    char said[512];
    snprintf(said, sizeof said, "%s", hr_last_error());
    if (st < 0) /* the other must not wait for this rank's release */
        hr_group_abort(world, st);
    hr_window_destroy(w);
    hr_group_release(g);
    return st < 0 ? hr_fail(st, "test", "%s", said) : HR_OK;
}

static void ignore_line(void *ctx, hr_log_level level, int rank, const char *line) {}

static struct {
    void (*fail_at)(long n, int code);
    bool (*failed)(void);
    void (*revive)(void);
    void (*count)(double_live *out);
} api;

static int load_double(void **state)
{
    static const char *const names[] = {
        "headrace_double_fail", "headrace_double_failed", "headrace_double_revive",
        "headrace_double_count"};
    assert_int_equal(sizeof api, sizeof names);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *symbol = symbol_of("HEADRACE_CUDART", names[i]);
        memcpy((char *)&api + i * sizeof symbol, &symbol, sizeof symbol);
    }
    hr_log_set_sink(ignore_line, NULL); /* blocks live when a failed run ends */
    return 0;
}

static void assert_nothing_lives(void)
{
    double_live cuda;
    nccl_live nccl;
    for (int looks = 0; looks < 1000000; looks++) { /* frees in stream order */
        api.count(&cuda);
        if (cuda.blocks == 0)
            break;
        sched_yield();
    }
    count_live(&nccl);
    assert_int_equal(cuda.streams, 0);
    assert_int_equal(cuda.events, 0);
    assert_int_equal(cuda.pools, 0);
    assert_int_equal(cuda.blocks, 0);
    assert_int_equal(nccl.comms, 0);
    assert_int_equal(nccl.windows, 0);
    assert_int_equal(nccl.blocks, 0);
}

/* How many calls a run without failures takes, about: which rank makes the n-th is not always the same. */
static long sweep(int code, long step)
{
    for (long n = 1;; n += step) {
        hr_error_clear();
        api.fail_at(n, code);
        hr_status st = run_nccl(2, 20, all_of_it, NULL);
        bool failed = api.failed();
        api.fail_at(0, 0);
        api.revive();
        if (st < 0 && (!failed || strlen(hr_last_error()) < 20))
            print_error("%ld: %s\n", n, hr_last_error());
        assert_true(st >= 0 || (failed && strlen(hr_last_error()) > 20));
        assert_int_not_equal(st, HR_ERR_TIMEOUT);
        assert_nothing_lives();
        if (!failed)
            return n;
    }
}

static void each_call_may_be_refused(void **state)
{
    assert_true(sweep(400, 1) > 100);
}

static void each_call_may_find_no_memory(void **state)
{
    assert_true(sweep(2, 7) > 100);
}

static void each_call_may_find_the_context_dead(void **state)
{
    assert_true(sweep(700, 7) > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_may_be_refused),
        cmocka_unit_test(each_call_may_find_no_memory),
        cmocka_unit_test(each_call_may_find_the_context_dead),
    };
    return cmocka_run_group_tests(tests, load_double, NULL);
}
