/* Storages: claims on bytes, foreign memory, streams that the bytes wait for. */
#include "unit/tensor/tensor_kit.h"

static const int64_t four[1] = {4};

static void bytes_go_with_the_callers_last_handle(void **state)
{
    hr_storage *st;
    kit_ok(hr_storage_create(hr_stream_current(), 100, &st));
    assert_int_equal(hr_storage_claims(st), 1);
    assert_int_equal(hr_storage_bytes(st), 100);
    assert_non_null(hr_storage_data(st));
    assert_ptr_equal(hr_storage_home(st), hr_stream_current());
    assert_int_equal(kit_live(), 100);
    assert_ptr_equal(hr_storage_retain(st), st);
    hr_storage_release(st);
    assert_int_equal(hr_storage_claims(st), 1);
    hr_storage_release(st);
    assert_int_equal(kit_live(), 0);
    hr_storage_release(NULL);
}

static void a_tensor_outlives_the_callers_handle(void **state)
{
    hr_storage *st;
    hr_tensor *t;
    kit_ok(hr_storage_create(hr_stream_current(), 16, &st));
    kit_ok(hr_tensor_over(st, 0, HR_F32, 1, four, &t));
    assert_int_equal(hr_storage_claims(st), 2);
    hr_storage_release(st);
    assert_int_equal(kit_live(), 16);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(t)), 1);
    hr_tensor_release(t);
    assert_int_equal(kit_live(), 0);
}

static void a_handle_of_a_tensors_storage_holds_no_bytes(void **state)
{
    hr_tensor *t = KIT_TENSOR(1, 2, 3, 4);
    hr_storage *st = hr_storage_retain(hr_tensor_storage(t));
    assert_int_equal(hr_storage_claims(st), 1);
    hr_tensor_release(t);
    assert_int_equal(kit_live(), 0);
    assert_null(hr_storage_data(st));
    assert_int_equal(hr_storage_bytes(st), 0);
    assert_int_equal(hr_storage_claims(st), 0);
    hr_storage_record_stream(st, hr_stream_current()); /* nothing to record on */
    hr_storage_release(st);
}

static void a_tensor_must_fit_its_storage(void **state)
{
    hr_storage *st;
    hr_tensor *t;
    kit_ok(hr_storage_create(hr_stream_current(), 20, &st));
    kit_ok(hr_tensor_over(st, 4, HR_F32, 1, four, &t));
    assert_ptr_equal(hr_tensor_data(t), (char *)hr_storage_data(st) + 4);
    hr_tensor_release(t);
    kit_fails(hr_tensor_over(st, 8, HR_F32, 1, four, &t), HR_ERR_INVALID, "bounds");
    assert_null(t);
    kit_fails(hr_tensor_over(st, SIZE_MAX - 3, HR_U8, 1, four, &t), HR_ERR_INVALID,
              "bounds");
    kit_fails(hr_tensor_over(st, 2, HR_F32, 1, four, &t), HR_ERR_INVALID, "offset");
    kit_fails(hr_tensor_over(NULL, 0, HR_F32, 1, four, &t), HR_ERR_INVALID,
              "no_storage");
    assert_int_equal(hr_storage_claims(st), 1);
    hr_storage_release(st);
}

static void zero_bytes_are_ordinary(void **state)
{
    const int64_t none[2] = {0, 7};
    hr_storage *st;
    hr_tensor *t;
    kit_ok(hr_storage_create(hr_stream_current(), 0, &st));
    assert_null(hr_storage_data(st));
    kit_ok(hr_tensor_over(st, 0, HR_F32, 2, none, &t));
    kit_ok(hr_tensor_check(t, "test"));
    hr_storage_release(st);
    hr_tensor_release(t);
}

static void memory_limit_is_an_error_and_leaves_nothing(void **state)
{
    hr_device *small, *old = hr_device_current();
    hr_device_opts opts = {HR_INIT(hr_device_opts), .memory = 64};
    const int64_t many[1] = {1000};
    hr_storage *st;
    hr_tensor *t;
    kit_ok(hr_device_open(test_backend(), &opts, &small));
    hr_device_set_current(small);
    assert_int_equal(hr_storage_create(hr_stream_current(), 1000, &st), HR_ERR_NOMEM);
    assert_null(st);
    assert_int_equal(hr_tensor_create(HR_F32, 1, many, &t), HR_ERR_NOMEM);
    assert_null(t);
    hr_device_set_current(old);
    hr_device_close(small);
}

/* ---- foreign memory ------------------------------------------------------------------- */
struct deletion {
    int times;
    void *ptr;
    float saw; /* what was there when it ran */
};

static void note_deletion(void *ctx, void *ptr)
{
    struct deletion *d = ctx;
    d->times++;
    d->ptr = ptr;
    d->saw = *(float *)ptr;
}

static void foreign_memory_goes_back_after_the_queue(void **state)
{
    float memory[4] = {1, 1, 1, 1};
    struct deletion d = {0};
    hr_storage *st;
    hr_tensor *t;
    sem_t gate;
    kit_ok(hr_storage_wrap(hr_stream_current(), memory, sizeof memory, note_deletion,
                           &d, &st));
    kit_ok(hr_tensor_over(st, 0, HR_F32, 1, four, &t));
    hr_storage_release(st);
    kit_gate(hr_stream_current(), &gate);
    kit_ok(hr_fill(hr_stream_current(), hr_tensor_data(t), 0, sizeof memory));
    hr_tensor_release(t);
    sem_post(&gate);
    kit_ok(hr_stream_synchronize(hr_stream_current()));
    assert_int_equal(d.times, 1);
    assert_ptr_equal(d.ptr, memory);
    assert_true(d.saw == 0.0F);
    assert_int_equal(kit_live(), 0);
}

/* The release comes at the home stream while another one is held up before its write. */
static void foreign_memory_waits_for_recorded_streams(void **state)
{
    float memory[4] = {1, 1, 1, 1};
    struct deletion d = {0};
    hr_stream *other = kit_stream("other");
    hr_storage *st;
    sem_t gate;
    kit_ok(hr_storage_wrap(hr_stream_current(), memory, sizeof memory, note_deletion,
                           &d, &st));
    hr_storage_record_stream(st, other);
    hr_storage_record_stream(st, other);
    kit_gate(other, &gate);
    kit_ok(hr_fill(other, memory, 0, sizeof memory));
    hr_storage_release(st);
    sem_post(&gate);
    kit_ok(hr_stream_synchronize(hr_stream_current()));
    assert_int_equal(d.times, 1);
    assert_true(d.saw == 0.0F);
    hr_stream_destroy(other);
}

static void foreign_memory_goes_back_though_the_device_failed(void **state)
{
    float memory[1] = {3};
    struct deletion d = {0};
    hr_storage *st;
    kit_ok(hr_storage_wrap(hr_stream_current(), memory, sizeof memory, note_deletion,
                           &d, &st));
    hr_device_fail(kit_dev, hr_fail(HR_ERR_DEVICE, "test", "on purpose"));
    hr_storage_release(st);
    assert_int_equal(d.times, 1);
    hr_device_reset(kit_dev);
}

/* Its launch was queued and then skipped, because the device failed in between. */
static void a_skipped_deleter_runs_with_the_next_one(void **state)
{
    for (int reset = 0; reset < 2; reset++) {
        float memory[2] = {3, 4};
        struct deletion first = {0}, second = {0};
        hr_storage *a, *b;
        sem_t gate;
        kit_ok(hr_storage_wrap(hr_stream_current(), &memory[0], sizeof(float),
                               note_deletion, &first, &a));
        kit_ok(hr_storage_wrap(hr_stream_current(), &memory[1], sizeof(float),
                               note_deletion, &second, &b));
        kit_gate(hr_stream_current(), &gate);
        hr_storage_release(a);
        hr_device_fail(kit_dev, hr_fail(HR_ERR_DEVICE, "test", "on purpose"));
        sem_post(&gate);
        assert_int_equal(hr_stream_synchronize(hr_stream_current()), HR_ERR_DEVICE);
        assert_int_equal(first.times, 0);
        if (reset)
            hr_device_reset(kit_dev);
        hr_storage_release(b);
        if (!reset)
            hr_device_reset(kit_dev);
        kit_ok(hr_stream_synchronize(hr_stream_current()));
        assert_int_equal(first.times, 1);
        assert_int_equal(second.times, 1);
    }
}

static void foreign_memory_wants_no_deleter(void **state)
{
    float memory[1] = {3};
    hr_storage *st;
    kit_ok(
        hr_storage_wrap(hr_stream_current(), memory, sizeof memory, NULL, NULL, &st));
    hr_storage_release(st);
    kit_fails(hr_storage_wrap(hr_stream_current(), NULL, 4, NULL, NULL, &st),
              HR_ERR_INVALID, "no_memory");
    assert_null(st);
    kit_fails(hr_storage_wrap(NULL, memory, 4, NULL, NULL, &st), HR_ERR_INVALID,
              "no_stream");
    kit_fails(hr_storage_create(NULL, 4, &st), HR_ERR_INVALID, "no_stream");
}

/* ---- streams -------------------------------------------------------------------------- */
/* A claim that is not the last ends on `other`; home's release must not let the block be used
 * again before `other` is through with it, though nobody recorded that stream by hand. */
static void the_bytes_wait_for_every_claims_position(void **state)
{
    hr_stream *other = kit_stream("other");
    hr_tensor *t = KIT_TENSOR(1, 2, 3, 4), *transfer, *again;
    void *was = hr_tensor_data(t);
    sem_t gate;
    kit_ok(hr_tensor_alias(t, &transfer));
    kit_gate(other, &gate);
    hr_tensor_drop(transfer, other);
    hr_tensor_release(t);
    assert_int_equal(kit_live(), 0);
    kit_ok(hr_tensor_create(HR_F32, 1, four, &again));
    assert_ptr_not_equal(hr_tensor_data(again), was);
    hr_tensor_release(again);
    hr_tensor_release(transfer);
    sem_post(&gate);
    kit_ok(hr_device_synchronize(kit_dev));
    hr_stream_destroy(other);
}

/* The other way round: home's position passed first, the last claim ends elsewhere. */
static void the_bytes_wait_for_homes_position_too(void **state)
{
    hr_stream *other = kit_stream("other"), *was_current;
    hr_tensor *t = KIT_TENSOR(1, 2, 3, 4), *alias, *again;
    void *was = hr_tensor_data(t);
    sem_t gate;
    kit_ok(hr_tensor_alias(t, &alias));
    kit_gate(hr_stream_current(), &gate);
    hr_tensor_release(t);
    hr_tensor_drop(alias, other);
    assert_int_equal(kit_live(), 0);
    hr_stream_enter(other, &was_current);
    kit_ok(hr_tensor_create(HR_F32, 1, four, &again));
    hr_stream_exit(other, was_current);
    assert_ptr_not_equal(hr_tensor_data(again), was);
    hr_tensor_release(again);
    hr_tensor_release(alias);
    sem_post(&gate);
    kit_ok(hr_device_synchronize(kit_dev));
    hr_stream_destroy(other);
}

static void a_dropped_block_is_there_again_on_its_stream(void **state)
{
    hr_tensor *t = KIT_TENSOR(1, 2, 3, 4), *again;
    void *was = hr_tensor_data(t);
    hr_tensor_drop(t, hr_stream_current());
    kit_ok(hr_tensor_create(HR_F32, 1, four, &again));
    assert_ptr_equal(hr_tensor_data(again), was);
    hr_tensor_release(again);
    hr_tensor_release(t);
}

static void elements_stand_where_their_type_may(void **state)
{
    static _Alignas(8) unsigned char memory[16];
    const int64_t two[1] = {2};
    hr_storage *st;
    hr_tensor *t;
    kit_ok(hr_storage_wrap(hr_stream_current(), memory + 1, 15, NULL, NULL, &st));
    kit_fails(hr_tensor_over(st, 0, HR_F32, 1, two, &t), HR_ERR_INVALID, "alignment");
    assert_null(t);
    assert_int_equal(hr_storage_claims(st), 1);
    kit_ok(hr_tensor_over(st, 3, HR_U8, 1, two, &t));
    hr_tensor_release(t);
    hr_storage_release(st);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(bytes_go_with_the_callers_last_handle),
        T(a_tensor_outlives_the_callers_handle),
        T(a_handle_of_a_tensors_storage_holds_no_bytes),
        T(a_tensor_must_fit_its_storage),
        T(zero_bytes_are_ordinary),
        T(memory_limit_is_an_error_and_leaves_nothing),
        T(foreign_memory_goes_back_after_the_queue),
        T(foreign_memory_waits_for_recorded_streams),
        T(foreign_memory_goes_back_though_the_device_failed),
        T(a_skipped_deleter_runs_with_the_next_one),
        T(foreign_memory_wants_no_deleter),
        T(the_bytes_wait_for_every_claims_position),
        T(the_bytes_wait_for_homes_position_too),
        T(elements_stand_where_their_type_may),
        T(a_dropped_block_is_there_again_on_its_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
