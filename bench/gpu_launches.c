/* What it costs to put work on a stream of a GPU, and how close one kernel follows another there.
 *
 *     issue     nanoseconds of the issuing thread, the stream being empty at first: a fill (one call of CUDA's),
 *               a small operator without a graph (memory, a launch, its release), a host kernel
 *     kernel    microseconds of a product of SIDE x SIDE: by the timeline, and as one of many in a row
 *     gap       on the timeline, from the end of a kernel to the begin of the next. The timeline puts an
 *               event before each and one after, so without it they are closer
 *
 *     bench_gpu_launches DEVICE [SIDE [ROUNDS]]
 *
 * Products have to take longer than issuing them does, or gaps are waits for the issuing thread. */
#include "gpu_kit.h"
#include <string.h>

enum { BATCH = 128, ROW = 400, MOST_ROUNDS = 101 };

static hr_device *dev;
static hr_tensor *small, *x, *w;
static void *bytes;
static int rounds;

/* ---- issuing --------------------------------------------------------------------------- */
static void issue_fill(void)
{
    ok(hr_fill(hr_stream_current(), bytes, 1, 64));
}

static void issue_operator(void)
{
    hr_tensor *out;
    ok(hr_op_add(small, small, &out));
    hr_tensor_release(out);
}

static hr_status empty_kernel(const void *args, hr_team *team)
{
    return HR_OK;
}

static void issue_host_kernel(void)
{
    ok(hr_launch(hr_stream_current(), "empty", empty_kernel, NULL, 0, NULL, 0));
}

static void measure_issue(const char *name, void (*issue)(void))
{
    static double ns[MOST_ROUNDS];
    issue(); /* what is loaded at the first */
    for (int r = 0; r < rounds; r++) {
        ok(hr_device_synchronize(dev));
        int64_t start = hr_now_ns();
        for (int i = 0; i < BATCH; i++)
            issue();
        ns[r] = (double)(hr_now_ns() - start) / BATCH;
    }
    ok(hr_device_synchronize(dev));
    bench_say(name, bench_median(ns, rounds), "ns");
}

/* ---- kernels in a row -------------------------------------------------------------------- */
static double run_row(void)
{
    int64_t start = hr_now_ns();
    for (int i = 0; i < ROW; i++)
        gpu_product(x, w);
    ok(hr_device_synchronize(dev));
    return (double)(hr_now_ns() - start) * 1e-3 / ROW;
}

static void measure_row(void)
{
    static double us[MOST_ROUNDS];
    run_row();
    for (int r = 0; r < rounds; r++)
        us[r] = run_row();
    bench_say("kernel.in_a_row", bench_median(us, rounds), "us");
}

/* Debug builds fill memory between them. */
static int find_products(hr_timeline *t, hr_span *out)
{
    int n = 0;
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        size_t on_lane;
        const hr_span *s = hr_lane_spans(hr_timeline_lane_at(t, i), &on_lane);
        for (size_t k = 0; k < on_lane && n < ROW; k++)
            if (s[k].kind == HR_SPAN_BUSY && strcmp(s[k].name, "linear") == 0)
                out[n++] = s[k];
    }
    return n;
}

static void measure_gaps(void)
{
    static hr_span s[ROW];
    static double gap[ROW - 1], duration[ROW];
    hr_timeline *t;
    ok(hr_timeline_create(4 * (size_t)ROW, &t));
    ok(hr_device_set_timeline(dev, t));
    run_row(); /* makes the events */
    hr_timeline_clear(t, -1);
    run_row();
    int n = find_products(t, s);
    if (n != ROW) {
        fprintf(stderr, "the timeline has %d of the %d products\n", n, ROW);
        exit(1);
    }
    for (int i = 0; i < ROW; i++)
        duration[i] = (double)(s[i].end_ns - s[i].begin_ns) * 1e-3;
    for (int i = 1; i < ROW; i++)
        gap[i - 1] = (double)(s[i].begin_ns - s[i - 1].end_ns);
    ok(hr_device_set_timeline(dev, NULL));
    hr_timeline_destroy(t);
    bench_say("kernel.duration", bench_median(duration, ROW), "us");
    bench_say("gap.median", bench_median(gap, ROW - 1), "ns");
    bench_say("gap.p90", gap[(ROW - 1) * 9 / 10], "ns"); /* in order by now */
}

int main(int argc, char **argv)
{
    int side = gpu_number(argc, argv, 2, 1024);
    rounds = gpu_number(argc, argv, 3, 31);
    if (argc < 2 || side < 1 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: %s DEVICE [SIDE [ROUNDS, at most %d]]\n", argv[0],
                MOST_ROUNDS);
        return 2;
    }
    dev = gpu_open(argv[1]);
    small = gpu_matrix(8, 64);
    x = gpu_matrix(side, side);
    w = gpu_matrix(side, side);
    ok(hr_mem_alloc(hr_stream_current(), 64, &bytes));
    measure_issue("issue.fill", issue_fill);
    measure_issue("issue.operator", issue_operator);
    measure_issue("issue.host_kernel", issue_host_kernel);
    measure_row();
    measure_gaps();
    hr_mem_free(bytes, NULL);
    hr_tensor_release(small);
    hr_tensor_release(x);
    hr_tensor_release(w);
    hr_device_close(dev);
    return 0;
}
