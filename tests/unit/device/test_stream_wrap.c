/* Streams of another engine: its executor runs our launches between work of its own, and events and
 * waits order both. The engine here is a thread with a list; what is blocked is blocked by gates. */
#include "device_kit.h"

enum { TASKS = 8192 };

typedef struct task {
    void (*fn)(void *arg);
    void *arg;
} task;

typedef struct engine {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    task tasks[TASKS]; /* mu */
    int n, next;       /* mu */
    int refuse_at;     /* mu; the post that is refused, from 1; 0: none */
    int posts;         /* mu */
    bool stop;         /* mu */
    pthread_t thread;
} engine;

static void *run_engine(void *arg)
{
    engine *e = arg;
    pthread_mutex_lock(&e->mu);
    for (;;) {
        while (e->next == e->n && !e->stop)
            pthread_cond_wait(&e->cv, &e->mu);
        if (e->next == e->n)
            break;
        task t = e->tasks[e->next++];
        pthread_mutex_unlock(&e->mu);
        t.fn(t.arg);
        pthread_mutex_lock(&e->mu);
    }
    pthread_mutex_unlock(&e->mu);
    return NULL;
}

static void put(engine *e, void (*fn)(void *), void *arg)
{
    pthread_mutex_lock(&e->mu);
    if (e->n < TASKS)
        e->tasks[e->n++] = (task){fn, arg};
    pthread_cond_broadcast(&e->cv);
    pthread_mutex_unlock(&e->mu);
}

static hr_status post(void *ctx, void (*fn)(void *), void *arg)
{
    engine *e = ctx;
    pthread_mutex_lock(&e->mu);
    bool refuse = ++e->posts == e->refuse_at;
    pthread_mutex_unlock(&e->mu);
    if (refuse)
        return hr_fail(HR_ERR_STATE, "closed", "the engine is closing");
    put(e, fn, arg);
    return HR_OK;
}

typedef struct fixture {
    engine e;
    hr_device *dev;
    hr_stream *theirs, *ours;
    hr_event *ev;
    run_log log;
} fixture;

static int set_up_with(void **state, int check)
{
    fixture *f = calloc(1, sizeof *f);
    pthread_mutex_init(&f->e.mu, NULL);
    pthread_cond_init(&f->e.cv, NULL);
    assert_int_equal(pthread_create(&f->e.thread, NULL, run_engine, &f->e), 0);
    f->dev = open_device(
        &(hr_device_opts){HR_INIT(hr_device_opts), .rank = 3, .check = check});
    hr_stream_wrap_opts o = {HR_INIT(hr_stream_wrap_opts), .name = "theirs",
                             .native = &f->e, .post = post, .ctx = &f->e};
    OK(hr_stream_wrap(f->dev, &o, &f->theirs));
    f->ours = new_stream(f->dev, "ours");
    f->ev = new_event(f->dev);
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, 0);
}

static int set_up_checked(void **state)
{
    return set_up_with(state, 1);
}

static int take_down(void **state)
{
    fixture *f = *state;
    hr_device_close(f->dev);
    pthread_mutex_lock(&f->e.mu);
    f->e.stop = true;
    pthread_cond_broadcast(&f->e.cv);
    pthread_mutex_unlock(&f->e.mu);
    pthread_join(f->e.thread, NULL);
    free(f);
    return 0;
}

/* The engine's own work. */
typedef struct native {
    run_log *log;
    int value;
} native;

static void native_note(void *arg)
{
    native *n = arg;
    atomic_store(&n->log->value[atomic_fetch_add(&n->log->n, 1)], n->value);
}

static void native_gate(void *arg)
{
    gate *g = arg;
    (void)pass_gate(&g, NULL);
}

static void expect_log(fixture *f, const int *want, int n)
{
    assert_int_equal(atomic_load(&f->log.n), n);
    for (int i = 0; i < n; i++)
        assert_int_equal(atomic_load(&f->log.value[i]), want[i]);
}

static void launches_run_between_native_work_in_order(void **state)
{
    fixture *f = *state;
    native two = {&f->log, 2}, four = {&f->log, 4};
    gate g = GATE_INIT;
    put(&f->e, native_gate, &g); /* so that all is queued before any of it runs */
    launch_note(f->theirs, &f->log, 1);
    put(&f->e, native_note, &two);
    launch_note(f->theirs, &f->log, 3);
    put(&f->e, native_note, &four);
    open_gate(&g);
    OK(hr_stream_synchronize(f->theirs)); /* waits for the native work too */
    expect_log(f, (int[]){1, 2, 3, 4}, 4);
}

static hr_status look_who(const void *args, hr_team *team)
{
    pthread_t *const *who = args;
    **who = pthread_self();
    return hr_thread_rank() == 3 ? HR_OK : HR_ERR_STATE;
}

static void native_rank(void *arg)
{
    *(int *)arg = hr_thread_rank();
}

static void launches_run_on_the_executors_thread_for_our_rank(void **state)
{
    fixture *f = *state;
    pthread_t who, *to = &who;
    int after = 0;
    OK(hr_launch(f->theirs, "who", look_who, &to, sizeof to, NULL, 0));
    put(&f->e, native_rank, &after);
    OK(hr_stream_synchronize(f->theirs));
    assert_true(pthread_equal(who, f->e.thread));
    assert_int_equal(after, -1); /* the thread speaks for itself again */
}

static void a_record_waits_for_native_work(void **state)
{
    fixture *f = *state;
    native one = {&f->log, 1}, three = {&f->log, 3};
    gate g = GATE_INIT, h = GATE_INIT;
    put(&f->e, native_gate, &g);
    put(&f->e, native_note, &one);
    OK(hr_event_record(f->ev, f->theirs));
    OK(hr_event_wait(f->ev, f->ours));
    launch_note(f->ours, &f->log, 2);
    assert_int_equal(hr_stream_query(f->ours), HR_PENDING);
    /* a second time: nothing of ours has been launched in between */
    put(&f->e, native_gate, &h);
    put(&f->e, native_note, &three);
    OK(hr_event_record(f->ev, f->theirs));
    OK(hr_event_wait(f->ev, f->ours));
    launch_note(f->ours, &f->log, 4);
    open_gate(&g);
    await_gate(&h);
    assert_int_equal(hr_event_query(f->ev), HR_PENDING);
    while (atomic_load(&f->log.n) < 2) /* 2 and 3 run side by side */
        ;
    open_gate(&h);
    OK(hr_stream_synchronize(f->ours));
    expect_log(f, (int[]){1, 2, 3, 4}, 4);
}

static void native_work_waits_for_our_events(void **state)
{
    fixture *f = *state;
    native two = {&f->log, 2};
    gate g = GATE_INIT;
    launch_gate(f->ours, &g);
    launch_note(f->ours, &f->log, 1);
    OK(hr_event_record(f->ev, f->ours));
    OK(hr_event_wait(f->ev, f->theirs));
    put(&f->e, native_note, &two);
    assert_int_equal(atomic_load(&f->log.n), 0);
    open_gate(&g);
    OK(hr_stream_synchronize(f->theirs));
    expect_log(f, (int[]){1, 2}, 2);
}

static void a_query_sees_native_work(void **state)
{
    fixture *f = *state;
    gate g = GATE_INIT, h = GATE_INIT;
    put(&f->e, native_gate, &g);
    for (int i = 0; i < 3; i++)
        assert_int_equal(hr_stream_query(f->theirs), HR_PENDING);
    open_gate(&g);
    while (hr_stream_query(f->theirs) == HR_PENDING)
        ;
    put(&f->e, native_gate, &h);
    assert_int_equal(hr_stream_query(f->theirs), HR_PENDING);
    open_gate(&h);
    while (hr_stream_query(f->theirs) == HR_PENDING)
        ;
    OK(hr_stream_query(f->ours));
}

static void more_launches_than_a_ring_holds(void **state)
{
    fixture *f = *state;
    enum { MANY = 3000 };
    for (int i = 0; i < MANY; i++)
        launch_note(f->theirs, &f->log, i);
    OK(hr_stream_synchronize(f->theirs));
    assert_int_equal(atomic_load(&f->log.n), MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(atomic_load(&f->log.value[i]), i);
}

static void a_failure_skips_our_work_and_not_theirs(void **state)
{
    fixture *f = *state;
    native one = {&f->log, 1};
    launch_failure(f->theirs, 7);
    launch_note(f->theirs, &f->log, 9);
    put(&f->e, native_note, &one);
    assert_int_equal(hr_stream_synchronize(f->theirs), HR_ERR_CALLBACK);
    assert_non_null(strstr(hr_last_error(), "stream 'theirs'"));
    expect_log(f, (int[]){1}, 1);
    hr_device_reset(f->dev);
    launch_note(f->theirs, &f->log, 2);
    OK(hr_stream_synchronize(f->theirs));
    expect_log(f, (int[]){1, 2}, 2);
}

typedef struct opener {
    engine *e;
    gate *g;
} opener;

static void *open_after_refusal(void *arg)
{
    opener *o = arg;
    bool refused = false;
    while (!refused) {
        pthread_mutex_lock(&o->e->mu);
        refused = o->e->posts >= o->e->refuse_at;
        pthread_mutex_unlock(&o->e->mu);
    }
    open_gate(o->g);
    return NULL;
}

static void an_executor_that_refuses_fails_the_device_and_hangs_nobody(void **state)
{
    fixture *f = *state;
    gate g = GATE_INIT;
    opener o = {&f->e, &g};
    pthread_t thread;
    launch_gate(f->theirs, &g);
    await_gate(&g); /* what was taken before is under way */
    f->e.refuse_at = f->e.posts + 1;
    assert_int_equal(pthread_create(&thread, NULL, open_after_refusal, &o), 0);
    launch_note(f->theirs, &f->log, 1); /* refused */
    pthread_join(thread, NULL);
    OK(hr_event_record(f->ev, f->theirs));
    OK(hr_event_wait(f->ev, f->ours));
    assert_int_equal(hr_stream_synchronize(f->ours), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), "executor");
    assert_non_null(strstr(hr_last_error(), "the engine is closing"));
    assert_int_equal(atomic_load(&f->log.n), 0);
    hr_device_reset(f->dev);
    launch_note(f->theirs, &f->log, 2);
    OK(hr_stream_synchronize(f->theirs));
    expect_log(f, (int[]){2}, 1);
}

static hr_status post_inline(void *ctx, void (*fn)(void *), void *arg)
{
    fn(arg);
    return HR_OK;
}

static void an_executor_may_run_at_once(void **state)
{
    fixture *f = *state;
    hr_stream *s;
    hr_stream_wrap_opts o = {HR_INIT(hr_stream_wrap_opts), .post = post_inline};
    OK(hr_stream_wrap(f->dev, &o, &s));
    assert_string_equal(hr_stream_name(s), "foreign");
    launch_note(s, &f->log, 1);
    expect_log(f, (int[]){1}, 1);
    OK(hr_stream_query(s));
    OK(hr_event_record(f->ev, s));
    OK(hr_event_query(f->ev));
    OK(hr_stream_synchronize(s));
    hr_stream_destroy(s);
}

static void destroying_waits_and_leaves_the_engine_alone(void **state)
{
    fixture *f = *state;
    native last = {&f->log, 1000};
    for (int i = 0; i < 200; i++) {
        hr_stream *s;
        hr_stream_wrap_opts o = {HR_INIT(hr_stream_wrap_opts), .post = post,
                                 .ctx = &f->e};
        OK(hr_stream_wrap(f->dev, &o, &s));
        launch_note(s, &f->log, i);
        OK(hr_event_record(f->ev, s));
        hr_stream_destroy(s);
        assert_int_equal(atomic_load(&f->log.n), i + 1);
        OK(hr_event_query(f->ev)); /* events outlive their stream */
    }
    put(&f->e, native_note, &last);
    OK(hr_stream_synchronize(f->theirs));
    assert_int_equal(atomic_load(&f->log.value[200]), 1000);
}

static void native_handles_come_back(void **state)
{
    fixture *f = *state;
    assert_ptr_equal(hr_stream_native(f->theirs), &f->e);
    assert_null(hr_stream_native(f->ours));
    assert_null(hr_stream_native(NULL));
    assert_string_equal(hr_stream_name(f->theirs), "theirs");
}

static void a_wrapped_stream_can_be_current(void **state)
{
    fixture *f = *state;
    hr_stream *before;
    hr_stream_enter(f->theirs, &before);
    assert_ptr_equal(hr_stream_current(), f->theirs);
    launch_note(hr_stream_current(), &f->log, 1);
    hr_stream_exit(f->theirs, before);
    OK(hr_device_synchronize(f->dev));
    expect_log(f, (int[]){1}, 1);
}

static void native_lane(void *arg)
{
    *(bool *)arg = hr_kernel_lane() == NULL;
}

static void spans_of_a_wrapped_stream_are_recorded(void **state)
{
    fixture *f = *state;
    hr_timeline *t;
    bool none_after = false;
    OK(hr_timeline_create(64, &t));
    OK(hr_device_set_timeline(f->dev, t));
    launch_note(f->theirs, &f->log, 1);
    put(&f->e, native_lane, &none_after);
    OK(hr_device_set_timeline(f->dev, NULL));
    assert_true(none_after); /* the engine's own work is in nobody's lane */
    int found = 0;
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        size_t n;
        const hr_span *spans = hr_lane_spans(hr_timeline_lane_at(t, i), &n);
        for (size_t k = 0; k < n; k++)
            found += strcmp(spans[k].name, "note") == 0;
    }
    assert_int_equal(found, 1);
    hr_timeline_destroy(t);
}

static void what_cannot_be_wrapped_is_refused(void **state)
{
    fixture *f = *state;
    hr_stream *s = f->ours;
    hr_stream_wrap_opts o = {HR_INIT(hr_stream_wrap_opts)};
    assert_int_equal(hr_stream_wrap(f->dev, &o, &s), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "no_executor");
    assert_null(s);
    o.size = 1;
    assert_int_equal(hr_stream_wrap(f->dev, &o, &s), HR_ERR_INVALID);
    assert_int_equal(hr_stream_wrap(f->dev, NULL, &s), HR_ERR_INVALID);
    assert_int_equal(hr_stream_wrap(NULL, &o, &s), HR_ERR_INVALID);
    assert_int_equal(hr_stream_wrap(f->dev, &o, NULL), HR_ERR_INVALID);
    assert_int_equal(hr_stream_touch(NULL, "x", NULL, 0), HR_ERR_INVALID);
    assert_int_equal(hr_stream_touch(f->ours, NULL, NULL, 0), HR_ERR_INVALID);
    assert_int_equal(hr_stream_touch(f->ours, "x", NULL, 1), HR_ERR_INVALID);
    assert_int_equal(hr_stream_touch(f->ours, "x", NULL, -1), HR_ERR_INVALID);
}

/* ---- hr_stream_touch ---- */
static hr_status run_nothing(const void *args, hr_team *team)
{
    return HR_OK;
}

static hr_status read_after_touch(fixture *f, bool ordered)
{
    void *p;
    hr_operand write = {NULL, 64, HR_WRITE}, read = {NULL, 64, HR_READ};
    OK(hr_mem_alloc(f->theirs, 64, &p));
    write.ptr = read.ptr = p;
    hr_mem_record_stream(p, f->ours);
    OK(hr_stream_touch(f->theirs, "their kernel", &write, 1));
    OK(hr_event_record(f->ev, f->theirs));
    if (ordered)
        OK(hr_event_wait(f->ev, f->ours));
    OK(hr_launch(f->ours, "reader", run_nothing, NULL, 0, &read, 1));
    hr_mem_free(p, f->theirs);
    return hr_device_synchronize(f->dev);
}

static void the_checker_sees_touches(void **state)
{
    fixture *f = *state;
    OK(read_after_touch(f, true));
    assert_int_equal(read_after_touch(f, false), HR_ERR_STATE);
    assert_non_null(strstr(hr_last_error(), "their kernel"));
    assert_non_null(strstr(hr_last_error(), "reader"));
    hr_device_reset(f->dev);
}

/* `ours` has waited for all that was on `theirs`, then native work uses the block there. */
static void *block_after_use(fixture *f, bool touched, void **first)
{
    void *again;
    OK(hr_mem_alloc(f->ours, 256, first));
    launch_note(f->theirs, &f->log, 1);
    OK(hr_event_record(f->ev, f->theirs));
    OK(hr_event_wait(f->ev, f->ours));
    hr_mem_record_stream(*first, f->theirs);
    if (touched)
        OK(hr_stream_touch(f->theirs, "their kernel",
                           &(hr_operand){*first, 256, HR_WRITE}, 1));
    hr_mem_free(*first, f->ours);
    OK(hr_mem_alloc(f->ours, 256, &again));
    return again;
}

static void touched_memory_is_not_handed_out_before_the_work(void **state)
{
    fixture *f = *state;
    void *first, *again = block_after_use(f, false, &first);
    assert_ptr_equal(again, first);
    hr_mem_free(again, f->ours);
    again = block_after_use(f, true, &first);
    assert_ptr_not_equal(again, first);
    hr_mem_free(again, f->ours);
}

#define WITH(fix, test) cmocka_unit_test_setup_teardown(test, fix, take_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(set_up, launches_run_between_native_work_in_order),
        WITH(set_up, launches_run_on_the_executors_thread_for_our_rank),
        WITH(set_up, a_record_waits_for_native_work),
        WITH(set_up, native_work_waits_for_our_events),
        WITH(set_up, a_query_sees_native_work),
        WITH(set_up, more_launches_than_a_ring_holds),
        WITH(set_up, a_failure_skips_our_work_and_not_theirs),
        WITH(set_up, an_executor_that_refuses_fails_the_device_and_hangs_nobody),
        WITH(set_up, an_executor_may_run_at_once),
        WITH(set_up, destroying_waits_and_leaves_the_engine_alone),
        WITH(set_up, native_handles_come_back),
        WITH(set_up, a_wrapped_stream_can_be_current),
        WITH(set_up, spans_of_a_wrapped_stream_are_recorded),
        WITH(set_up, what_cannot_be_wrapped_is_refused),
        WITH(set_up_checked, the_checker_sees_touches),
        WITH(set_up, touched_memory_is_not_handed_out_before_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
