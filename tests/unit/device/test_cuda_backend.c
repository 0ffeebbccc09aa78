/* What is peculiar to the CUDA backend, over the test double: flags and attributes of what it makes, memory
 * that the host cannot touch, work of the GPU, streams of others, a context that dies. The suites of
 * stream, event, memory and so on run on it too. */
#include "cuda_kit.h"

#include "base/try.h"
#include "device/cuda/cuda_watch.h"
#include "device/cuda/cudart.h"
#include "device/device_place.h"
#include "device/native_launch.h"

static double_api api;

static int load_double(void **state)
{
    api = get_double();
    setenv("HEADRACE_DOUBLE_HIDDEN", "1", 1);
    unsetenv("HEADRACE_CUDA_MEMORY");
    return 0;
}

static hr_device *open_cuda(void)
{
    hr_device *dev;
    OK(hr_device_open(
        "cuda", &(hr_device_opts){HR_INIT(hr_device_opts), .rank = 2, .poison = -1},
        &dev));
    hr_device_set_current(dev);
    return dev;
}

static void close_cuda(hr_device *dev)
{
    hr_device_close(dev);
    assert_nothing_lives(&api);
}

static void device_tells_its_double_and_its_place(void **state)
{
    char text[160], bus[32];
    hr_device *dev = open_cuda();
    hr_device_describe(dev, text, sizeof text);
    assert_non_null(strstr(text, "CUDA on test double"));
    OK(hr__device_pci_bus_id(dev, bus, sizeof bus));
    assert_string_equal(bus, "0000:3b:00.0"); /* small letters, as sysfs wants them */
    close_cuda(dev);
}

static void ranks_take_turns_with_the_gpus(void **state)
{
    char bus[32];
    setenv("HEADRACE_DOUBLE_DEVICES", "2", 1);
    for (int rank = 0; rank < 4; rank++) {
        hr_device *dev;
        OK(hr_device_open(
            "cuda", &(hr_device_opts){HR_INIT(hr_device_opts), .rank = rank}, &dev));
        OK(hr__device_pci_bus_id(dev, bus, sizeof bus));
        assert_string_equal(bus, rank % 2 ? "0000:3c:00.0" : "0000:3b:00.0");
        close_cuda(dev);
    }
    unsetenv("HEADRACE_DOUBLE_DEVICES");
}

static hr_status enqueue_event(hr_stream *s, const void *args)
{
    const hr__cudart *rt = hr__cuda(s);
    cudaEvent_t e;
    HR_TRY(hr__cuda_status(rt, rt->cudaEventCreateWithFlags(&e, 0), "create"));
    hr_status st =
        hr__cuda_status(rt, rt->cudaEventRecord(e, hr__cuda_stream(s)), "record");
    return rt->cudaEventDestroy(e) ? HR_ERR_DEVICE : st;
}

/* CUDA's own current device is the thread's, and is the one that was opened last. */
static void two_gpus_of_a_thread_keep_apart(void **state)
{
    hr_device *dev[2];
    setenv("HEADRACE_DOUBLE_DEVICES", "2", 1);
    for (int i = 0; i < 2; i++)
        OK(hr_device_open("cuda", &(hr_device_opts){HR_INIT(hr_device_opts), .rank = i},
                          &dev[i]));
    hr_stream *first = hr_device_default_stream(dev[0]);
    OK(hr_event_record(new_event(dev[0]), first));
    OK(hr_device_synchronize(dev[0]));
    OK(hr_event_record(new_event(dev[1]), hr_device_default_stream(dev[1])));
    OK(hr__launch_native(first, &(hr__native_launch){.name = "event",
                                                     .kind = HR_SPAN_BUSY,
                                                     .enqueue = enqueue_event}));
    OK(hr_device_synchronize(dev[0]));
    OK(hr_device_synchronize(dev[1]));
    hr_device_close(dev[0]);
    close_cuda(dev[1]);
    unsetenv("HEADRACE_DOUBLE_DEVICES");
}

static void pool_never_ties_streams_and_keeps_its_memory(void **state)
{
    hr_device *dev = open_cuda();
    assert_int_equal(api.pool_attribute(cudaMemPoolAttrReleaseThreshold), INT64_MAX);
    assert_int_equal(api.pool_attribute(cudaMemPoolReuseFollowEventDependencies), 1);
    assert_int_equal(api.pool_attribute(cudaMemPoolReuseAllowOpportunistic), 0);
    assert_int_equal(api.pool_attribute(cudaMemPoolReuseAllowInternalDependencies), 0);
    close_cuda(dev);
}

static void streams_have_priorities_and_events_no_times(void **state)
{
    hr_device *dev = open_cuda();
    hr_stream *s;
    OK(hr_stream_create(
        dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .priority = -99}, &s));
    assert_int_equal(api.last_priority(), -5);
    hr_event *e = new_event(dev);
    OK(hr_event_record(e, s));
    assert_int_equal(api.last_event_flags(), cudaEventDisableTiming);
    close_cuda(dev);
}

static void events_are_used_again(void **state)
{
    hr_device *dev = open_cuda();
    double_live l;
    for (int i = 0; i < 100; i++) {
        hr_event *e = new_event(dev);
        OK(hr_event_record(e, hr_stream_current()));
        hr_event_destroy(e);
    }
    api.count(&l);
    assert_int_equal(l.events, 1);
    close_cuda(dev);
}

static void copies_and_fills_reach_memory_that_the_host_does_not(void **state)
{
    hr_device *dev = open_cuda();
    hr_stream *s = hr_stream_current();
    char there[32] = "from the host", back[32] = "";
    void *p, *q;
    OK(hr_mem_alloc(s, 32, &p));
    OK(hr_mem_alloc(s, 32, &q));
    OK(hr_copy(s, p, there, sizeof there));
    OK(hr_fill(s, p, 'F', 1));
    OK(hr_copy(s, q, p, 32));
    OK(hr_copy(s, back, q, 32));
    OK(hr_fill(s, back, 'f', 1)); /* of the host: not CUDA's to fill */
    OK(hr_stream_synchronize(s));
    assert_string_equal(back, "from the host");
    OK(hr_fill(s, there, 'x', 4));
    OK(hr_stream_synchronize(s));
    assert_string_equal(there, "xxxx the host");
    hr_mem_free(p, s);
    hr_mem_free(q, s);
    close_cuda(dev);
}

static hr_status touch(const void *args, hr_team *team)
{
    **(char *const *)args = 1;
    return HR_OK;
}

static void host_kernels_on_memory_of_the_gpu_are_refused(void **state)
{
    hr_device *dev = open_cuda();
    hr_stream *s = hr_stream_current();
    void *p;
    OK(hr_mem_alloc(s, 32, &p));
    hr_operand op = {p, 32, HR_WRITE};
    assert_int_equal(hr_launch(s, "toucher", touch, &p, sizeof p, &op, 1),
                     HR_ERR_UNSUPPORTED);
    assert_string_equal(hr_last_reason(), "host_kernel");
    assert_non_null(strstr(hr_last_error(), "'toucher'"));
    OK(hr_stream_synchronize(s)); /* and nothing has failed */
    hr_mem_free(p, s);
    close_cuda(dev);
}

static void host_kernels_on_memory_of_the_host_run(void **state)
{
    hr_device *dev = open_cuda();
    char byte = 0, *at = &byte;
    hr_operand op = {&byte, 1, HR_WRITE};
    OK(hr_launch(hr_stream_current(), "toucher", touch, &at, sizeof at, &op, 1));
    OK(hr_device_synchronize(dev));
    assert_int_equal(byte, 1);
    close_cuda(dev);
}

/* ---- work of the GPU --------------------------------------------------------------------------- */
static hr_status enqueue_fill(hr_stream *s, const void *args)
{
    void *p = *(void *const *)args;
    return hr__cuda_status(hr__cuda(s),
                           hr__cuda(s)->cudaMemsetAsync(p, 'k', 8, hr_stream_native(s)),
                           "cudaMemsetAsync");
}

static hr_status launch_native_fill(hr_stream *s, void *p)
{
    hr__native_launch n = {
        .name = "native", .kind = HR_SPAN_BUSY, .enqueue = enqueue_fill, .args = &p};
    return hr__launch_native(s, &n);
}

static void native_launches_are_in_the_order_of_the_stream(void **state)
{
    hr_device *dev = open_cuda();
    hr_stream *s = hr_stream_current();
    char back[16] = "";
    void *p;
    OK(hr_mem_alloc(s, 16, &p));
    OK(hr_fill(s, p, 0, 16));
    OK(launch_native_fill(s, p));
    OK(hr_fill(s, p, 'x', 2));
    OK(hr_copy(s, back, p, 16));
    OK(hr_stream_synchronize(s));
    assert_string_equal(back, "xxkkkkkk");
    hr_mem_free(p, s);
    close_cuda(dev);
}

static void native_launch_that_fails_fails_the_device(void **state)
{
    hr_device *dev = open_cuda();
    hr_stream *s = hr_stream_current();
    run_log log = {0};
    char host[8];
    hr_span_begin(s, &(hr_mark){"mlp", 1, 7, HR_DIR_FORWARD});
    OK(launch_native_fill(s, host)); /* not of the GPU */
    hr_span_end(s);
    launch_note(s, &log, 1);
    assert_int_equal(hr_stream_synchronize(s), HR_ERR_DEVICE);
    assert_int_equal(log.n, 0);
    const char *words[] = {"rank 2",
                           "'compute'",
                           "'mlp'",
                           "microbatch 7",
                           "'native'",
                           "cudaMemsetAsync",
                           "cudaErrorInvalidValue, 1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_non_null(strstr(hr_last_error(), words[i]));
    hr_device_reset(dev);
    launch_note(s, &log, 1);
    OK(hr_stream_synchronize(s));
    assert_int_equal(log.n, 1);
    close_cuda(dev);
}

static void host_devices_have_no_native_work(void **state)
{
    hr_device *dev;
    OK(hr_device_open("host", NULL, &dev));
    assert_false(hr__device_is_native(dev));
    assert_int_equal(launch_native_fill(hr_device_default_stream(dev), &dev),
                     HR_ERR_UNSUPPORTED);
    hr_device_close(dev);
}

static hr_status leave_fault(const void *args, hr_team *team)
{
    hr__cuda_fault *f = *(hr__cuda_fault *const *)args;
    f->op = "embedding";
    f->what = "ids";
    f->at = 5;
    f->value = 300;
    f->limit = 256;
    __atomic_store_n(&f->set, 2, __ATOMIC_RELEASE);
    return HR_OK;
}

/* As a kernel of the GPU would, which has no status to return. */
static void fault_that_a_kernel_leaves_fails_the_device(void **state)
{
    hr_device *dev = open_cuda();
    hr_stream *s = hr_stream_current();
    hr__cuda_fault *fault = hr__cuda_fault_of(s);
    OK(hr_launch(s, "kernel", leave_fault, &fault, sizeof fault, NULL, 0));
    assert_int_equal(hr_stream_synchronize(s), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "embedding: ids[5] is 300, not 0..255"));
    hr_device_reset(dev);
    OK(hr_stream_synchronize(s));
    close_cuda(dev);
}

static int slots_freed;

static void free_slot(void *held)
{
    slots_freed += held == &slots_freed;
}

static void what_a_stream_holds_for_others_goes_with_it(void **state)
{
    hr_device *dev = open_cuda();
    hr_stream *s = new_stream(dev, "s"), *empty = new_stream(dev, "empty");
    void **slot = hr__cuda_stream_slot(s, free_slot);
    assert_null(*slot);
    *slot = &slots_freed;
    assert_null(*hr__cuda_stream_slot(empty, free_slot));
    slots_freed = 0;
    hr_stream_destroy(s);
    assert_int_equal(slots_freed, 1);
    close_cuda(dev);
    assert_int_equal(slots_freed, 1);
}

/* ---- waiting ------------------------------------------------------------------------------------- */
struct opener {
    gate g;
    int looks;
};

static void open_at_third_look(void *ctx)
{
    struct opener *o = ctx;
    if (++o->looks == 3)
        open_gate(&o->g);
}

static void who_watches_is_asked_while_the_host_waits(void **state)
{
    hr_device *dev = open_cuda();
    struct opener o = {.g = GATE_INIT};
    hr__cuda_watch watch = {.look = open_at_third_look, .ctx = &o};
    hr__cuda_watch_add(dev, &watch);
    launch_gate(hr_stream_current(), &o.g);
    OK(hr_stream_synchronize(hr_stream_current())); /* would hang without it */
    hr__cuda_watch_remove(dev, &watch);
    int looks = o.looks;
    assert_true(looks >= 3);
    launch_note(hr_stream_current(), &(run_log){0}, 1);
    OK(hr_stream_synchronize(hr_stream_current()));
    assert_int_equal(o.looks, looks);
    close_cuda(dev);
}

/* ---- streams of others --------------------------------------------------------------------------- */
static void wait_at_gate(void *g)
{
    pass_gate(&g, NULL);
}

static void foreign_streams_keep_their_order_with_ours(void **state)
{
    hr_device *dev = open_cuda();
    hr_stream *ours = new_stream(dev, "ours"), *theirs;
    const hr__cudart *rt = hr__cuda(ours);
    cudaStream_t native;
    gate g = GATE_INIT;
    run_log log = {0};
    assert_int_equal(
        rt->cudaStreamCreateWithPriority(&native, cudaStreamNonBlocking, 0), 0);
    OK(hr_stream_wrap(
        dev, &(hr_stream_wrap_opts){HR_INIT(hr_stream_wrap_opts), .native = native},
        &theirs));
    assert_ptr_equal(hr_stream_native(theirs), native);
    assert_ptr_not_equal(hr_stream_native(ours), native);
    hr_event *e = new_event(dev);
    assert_int_equal(rt->cudaLaunchHostFunc(native, wait_at_gate, &g), 0); /* unseen */
    OK(hr_event_record(e, theirs));
    OK(hr_event_wait(e, ours));
    launch_note(ours, &log, 1);
    assert_int_equal(hr_stream_query(theirs), HR_PENDING);
    assert_int_equal(hr_event_query(e), HR_PENDING);
    assert_int_equal(log.n, 0);
    open_gate(&g);
    OK(hr_stream_synchronize(ours));
    assert_int_equal(log.n, 1);
    launch_note(theirs, &log, 2);
    hr_stream_destroy(
        theirs); /* blocks until it is empty; the stream stays its owner's */
    assert_int_equal(log.n, 2);
    assert_int_equal(rt->cudaStreamQuery(native), 0);
    assert_int_equal(rt->cudaStreamDestroy(native), 0);
    close_cuda(dev);
}

/* ---- times ----------------------------------------------------------------------------------------- */
static hr_span span_named(const char *name, const hr_span *spans, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(spans[i].name, name) == 0)
            return spans[i];
    fail_msg("no span '%s'", name);
    return (hr_span){0};
}

static void work_of_the_gpu_has_spans_by_the_clock_of_the_host(void **state)
{
    hr_timeline *t;
    hr_device *dev = open_cuda();
    hr_stream *s = hr_stream_current();
    char from[64] = "", to[64];
    run_log log = {0};
    OK(hr_timeline_create(100, &t));
    OK(hr_device_set_timeline(dev, t));
    int64_t begin = hr_now_ns();
    hr_span_begin(s, &(hr_mark){"mlp", 3, 5, HR_DIR_BACKWARD});
    OK(hr_copy(s, to, from, sizeof to));
    launch_note(s, &log, 1);
    hr_span_end(s);
    OK(hr_stream_synchronize(s));
    int64_t end = hr_now_ns();
    size_t n;
    const hr_span *spans = hr_lane_spans(hr_timeline_lane_at(t, 0), &n);
    assert_int_equal(n, 3);
    hr_span copy = span_named("copy", spans, n), node = span_named("mlp", spans, n);
    hr_span note = span_named("note", spans, n);
    assert_int_equal(copy.kind, HR_SPAN_BUSY);
    assert_int_equal(copy.layer, 3);
    assert_int_equal(node.kind, HR_SPAN_NODE);
    assert_true(node.begin_ns == copy.begin_ns);
    assert_true(node.end_ns == note.end_ns);
    /* By how much they may be off is not known here: but not by a second. */
    assert_in_range(copy.begin_ns, begin, end + 1000000000);
    assert_in_range(copy.end_ns, copy.begin_ns, end + 1000000000);
    close_cuda(dev);
    hr_timeline_destroy(t);
}

static void launch_that_cuda_refuses_takes_no_place(void **state)
{
    enum { MANY = 2500 }; /* more than are queued at once */
    hr_device *dev = open_cuda();
    hr_stream *s = hr_stream_current();
    run_log log = {0};
    api.fail_at(1, cudaErrorNotSupported);
    launch_note(s, &log, 1);
    assert_int_equal(hr_stream_synchronize(s), HR_ERR_DEVICE);
    assert_non_null(strstr(hr_last_error(), "cudaLaunchHostFunc"));
    hr_device_reset(dev);
    for (int i = 0; i < MANY; i++)
        launch_note(s, &log, i);
    OK(hr_stream_synchronize(s));
    assert_int_equal(log.n, MANY);
    close_cuda(dev);
}

/* A kernel that ends some time after a failure. */
struct late {
    gate g;
    atomic_bool over;
};

static hr_status run_late(const void *args, hr_team *team)
{
    struct late *l = *(struct late *const *)args;
    gate *g = &l->g;
    hr_status st = pass_gate(&g, team);
    atomic_store(&l->over, true);
    return st;
}

static void *open_after_failure(void *late)
{
    struct late *l = late;
    while (!api.failed())
        sched_yield();
    for (int i = 0; i < 1000; i++) /* time enough to return too early */
        sched_yield();
    open_gate(&l->g);
    return NULL;
}

/* Synchronises behind a kernel that runs while a call fails with `code`: did it wait for the kernel? */
static bool waits_for_kernel(hr_device *dev, int code)
{
    struct late l = {.g = GATE_INIT}, *at = &l;
    pthread_t opener;
    OK(hr_launch(hr_stream_current(), "late", run_late, &at, sizeof at, NULL, 0));
    await_gate(&l.g);
    api.fail_at(1, code);
    assert_int_equal(pthread_create(&opener, NULL, open_after_failure, &l), 0);
    assert_int_equal(hr_device_synchronize(dev), HR_ERR_DEVICE);
    bool over = atomic_load(&l.over);
    pthread_join(opener, NULL);
    return over;
}

static void question_that_fails_once_does_not_end_the_wait(void **state)
{
    hr_device *dev = open_cuda();
    run_log log = {0};
    assert_true(waits_for_kernel(dev, cudaErrorNotSupported));
    hr_device_reset(dev);
    launch_note(hr_stream_current(), &log, 1); /* the stream is as good as before */
    OK(hr_device_synchronize(dev));
    assert_int_equal(log.n, 1);
    close_cuda(dev);
}

/* ---- a context that dies --------------------------------------------------------------------------- */
static void dead_context_fails_the_device_and_nobody_hangs(void **state)
{
    hr_device *dev = open_cuda();
    hr_stream *a = hr_stream_current(), *b = new_stream(dev, "b");
    hr_event *e = new_event(dev);
    gate g = GATE_INIT;
    run_log log = {0};
    launch_gate(a, &g);
    await_gate(&g);
    OK(hr_event_record(e, a));
    OK(hr_event_wait(e, b));
    for (int i = 0; i < 10; i++) {
        launch_note(a, &log, i);
        launch_note(b, &log, i);
    }
    api.fail_at(1, cudaErrorIllegalAddress);
    OK(hr_copy(b, &log.value[0], &log.value[1], 4));
    open_gate(&g);
    assert_int_equal(hr_device_synchronize(dev), HR_ERR_DEVICE);
    assert_non_null(
        strstr(hr_last_error(), "cudaMemcpyAsync: an illegal memory access"));
    assert_int_equal(hr_event_query(e), HR_ERR_DEVICE);
    assert_int_equal(log.n, 0);
    hr_device_reset(dev); /* does not bring a context back */
    launch_note(a, &log, 1);
    assert_int_equal(hr_device_synchronize(dev), HR_ERR_DEVICE);
    hr_device_close(dev);
    assert_int_equal(log.n, 0);
    api.revive();
}

static void kernel_that_runs_while_the_context_dies_is_waited_for(void **state)
{
    hr_device *dev = open_cuda();
    assert_true(waits_for_kernel(dev, cudaErrorIllegalAddress));
    hr_device_close(dev);
    api.revive();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_tells_its_double_and_its_place),
        cmocka_unit_test(ranks_take_turns_with_the_gpus),
        cmocka_unit_test(two_gpus_of_a_thread_keep_apart),
        cmocka_unit_test(pool_never_ties_streams_and_keeps_its_memory),
        cmocka_unit_test(streams_have_priorities_and_events_no_times),
        cmocka_unit_test(events_are_used_again),
        cmocka_unit_test(copies_and_fills_reach_memory_that_the_host_does_not),
        cmocka_unit_test(host_kernels_on_memory_of_the_gpu_are_refused),
        cmocka_unit_test(host_kernels_on_memory_of_the_host_run),
        cmocka_unit_test(native_launches_are_in_the_order_of_the_stream),
        cmocka_unit_test(native_launch_that_fails_fails_the_device),
        cmocka_unit_test(host_devices_have_no_native_work),
        cmocka_unit_test(fault_that_a_kernel_leaves_fails_the_device),
        cmocka_unit_test(what_a_stream_holds_for_others_goes_with_it),
        cmocka_unit_test(who_watches_is_asked_while_the_host_waits),
        cmocka_unit_test(foreign_streams_keep_their_order_with_ours),
        cmocka_unit_test(work_of_the_gpu_has_spans_by_the_clock_of_the_host),
        cmocka_unit_test(launch_that_cuda_refuses_takes_no_place),
        cmocka_unit_test(question_that_fails_once_does_not_end_the_wait),
        cmocka_unit_test(kernel_that_runs_while_the_context_dies_is_waited_for),
        cmocka_unit_test(dead_context_fails_the_device_and_nobody_hangs),
    };
    return cmocka_run_group_tests(tests, load_double, NULL);
}
