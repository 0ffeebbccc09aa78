/* DLPack: who holds the bytes, what is refused, and that our structs are DLPack's. */
#include "tensor/dlpack_abi.h"
#include "unit/tensor/dlpack_theirs.h"
#include "unit/tensor/tensor_kit.h"
#include <pthread.h>

typedef struct DLManagedTensor managed;
typedef struct DLManagedTensorVersioned versioned;

static bool on_cuda(void)
{
    return strcmp(test_backend(), "cuda") == 0;
}

/* ---- out ------------------------------------------------------------------------------ */
static void handed_out_tensor_describes_the_same_bytes(void **state)
{
    static const struct {
        hr_dtype dtype;
        uint8_t code, bits;
    } all[] = {{HR_F32, 2, 32}, {HR_BF16, 4, 16}, {HR_F16, 2, 16},
               {HR_I32, 0, 32}, {HR_I64, 0, 64},  {HR_U8, 1, 8}};
    const int64_t shape[3] = {2, 3, 4};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hr_tensor *t;
        managed *m;
        kit_ok(hr_tensor_create(all[i].dtype, 3, shape, &t));
        kit_ok(hr_tensor_to_dlpack(t, &m));
        assert_ptr_equal((char *)m->tensor.data + m->tensor.byte_offset,
                         hr_tensor_data(t));
        assert_int_equal(m->tensor.device.type, on_cuda() ? 2 : 1);
        assert_int_equal(m->tensor.device.id, hr_device_ordinal(kit_dev));
        assert_int_equal(m->tensor.ndim, 3);
        assert_memory_equal(m->tensor.shape, shape, sizeof shape);
        assert_memory_equal(m->tensor.strides, ((int64_t[]){12, 4, 1}), sizeof shape);
        assert_int_equal(m->tensor.dtype.code, all[i].code);
        assert_int_equal(m->tensor.dtype.bits, all[i].bits);
        assert_int_equal(m->tensor.dtype.lanes, 1);
        m->deleter(m);
        hr_tensor_release(t);
    }
}

static void handed_out_view_begins_at_its_own_row(void **state)
{
    hr_tensor *t = KIT_TENSOR(1, 2, 3, 4), *rows;
    versioned *m;
    kit_ok(hr_tensor_rows(t, 1, 3, &rows));
    kit_ok(hr_tensor_to_dlpack_versioned(rows, &m));
    assert_int_equal(m->major, 1);
    assert_int_equal(m->flags, 0);
    assert_int_equal(m->tensor.shape[0], 2);
    assert_true(((float *)m->tensor.data)[0] == 2.0F);
    m->deleter(m);
    hr_tensor_release(rows);
    hr_tensor_release(t);
}

static void handed_out_bytes_stay_until_the_deleter(void **state)
{
    hr_tensor *t = KIT_TENSOR(7, 8);
    managed *m;
    versioned *v;
    kit_ok(hr_tensor_to_dlpack(t, &m));
    kit_ok(hr_tensor_to_dlpack_versioned(t, &v));
    assert_int_equal(hr_storage_claims(hr_tensor_storage(t)), 3);
    hr_tensor_drop(t, NULL);
    hr_tensor_release(t);
    assert_int_equal(kit_live(), 8);
    assert_true(((float *)m->tensor.data)[1] == 8.0F);
    m->deleter(m);
    assert_int_equal(kit_live(), 8);
    v->deleter(v);
    assert_int_equal(kit_live(), 0);
}

static void freed_tensor_is_not_handed_out(void **state)
{
    hr_tensor *t = KIT_TENSOR(1);
    managed *m;
    versioned *v;
    hr_tensor_drop(t, NULL);
    kit_fails(hr_tensor_to_dlpack(t, &m), HR_ERR_STATE, "freed");
    assert_null(m);
    kit_fails(hr_tensor_to_dlpack_versioned(t, &v), HR_ERR_STATE, "freed");
    assert_null(v);
    kit_fails(hr_tensor_to_dlpack(NULL, &m), HR_ERR_INVALID, "no_tensor");
    kit_fails(hr_tensor_to_dlpack(t, NULL), HR_ERR_INVALID, "no_out");
    hr_tensor_release(t);
}

/* ---- in ------------------------------------------------------------------------------- */
struct foreign {
    float memory[8];
    int64_t shape[6], strides[6];
    managed m;
    int deleted;
};

static void delete_foreign(managed *m)
{
    struct foreign *f = m->manager_ctx;
    f->deleted++;
    f->memory[7] = f->memory[0];
}

/* f32 [2, 3] at memory[1]; a test changes what it wants to. */
static struct foreign *make_foreign(struct foreign *f)
{
    *f = (struct foreign){.memory = {9, 1, 2, 3, 4, 5, 6, 9},
                          .shape = {2, 3, 1, 1, 1, 1},
                          .strides = {3, 1, 1, 1, 1, 1}};
    f->m =
        (managed){.tensor = {.data = f->memory,
                             .device = {on_cuda() ? 2 : 1, hr_device_ordinal(kit_dev)},
                             .ndim = 2,
                             .dtype = {2, 32, 1},
                             .shape = f->shape,
                             .strides = f->strides,
                             .byte_offset = sizeof(float)},
                  .manager_ctx = f,
                  .deleter = delete_foreign};
    return f;
}

static void taken_in_tensor_is_the_same_bytes(void **state)
{
    struct foreign f;
    hr_tensor *t;
    for (int given = 0; given < 2; given++) {
        make_foreign(&f);
        if (!given)
            f.m.tensor.strides = NULL;
        kit_ok(hr_tensor_from_dlpack(&f.m, &t));
        assert_ptr_equal(hr_tensor_data(t), &f.memory[1]);
        assert_int_equal(hr_tensor_ndim(t), 2);
        assert_int_equal(hr_tensor_dim(t, 0), 2);
        assert_int_equal(hr_tensor_dim(t, 1), 3);
        assert_int_equal(hr_storage_claims(hr_tensor_storage(t)), 1);
        KIT_EXPECT(t, 1, 2, 3, 4, 5, 6);
        hr_tensor_release(t);
        kit_ok(hr_stream_synchronize(hr_stream_current()));
        assert_int_equal(f.deleted, 1);
    }
}

static void deleter_runs_after_the_work_that_is_queued(void **state)
{
    struct foreign f;
    hr_tensor *t, *alias;
    sem_t gate;
    kit_ok(hr_tensor_from_dlpack(&make_foreign(&f)->m, &t));
    kit_ok(hr_tensor_alias(t, &alias));
    kit_gate(hr_stream_current(), &gate);
    kit_ok(hr_fill(hr_stream_current(), f.memory, 0, sizeof(float)));
    hr_tensor_release(t);
    hr_tensor_release(alias);
    sem_post(&gate);
    kit_ok(hr_stream_synchronize(hr_stream_current()));
    assert_int_equal(f.deleted, 1);
    assert_true(f.memory[7] == 0.0F);
}

static void without_a_deleter_nothing_is_called(void **state)
{
    struct foreign f;
    hr_tensor *t;
    make_foreign(&f)->m.deleter = NULL;
    kit_ok(hr_tensor_from_dlpack(&f.m, &t));
    hr_tensor_release(t);
    kit_ok(hr_stream_synchronize(hr_stream_current()));
}

static void refused(struct foreign *f, hr_status st, const char *reason,
                    const char *word)
{
    hr_tensor *t;
    kit_fails(hr_tensor_from_dlpack(&f->m, &t), st, reason);
    assert_null(t);
    assert_non_null(strstr(hr_last_error(), word));
    kit_ok(hr_stream_synchronize(hr_stream_current()));
    assert_int_equal(f->deleted, 0);
}

static void what_is_not_dense_and_row_major_is_refused(void **state)
{
    struct foreign f;
    make_foreign(&f)->strides[0] = 4; /* padded rows */
    refused(&f, HR_ERR_INVALID, "strides", "dimension 0 has stride 4, and 3");
    make_foreign(&f)->strides[1] = 2; /* every other element */
    refused(&f, HR_ERR_INVALID, "strides", "dimension 1 has stride 2, and 1");
    make_foreign(&f)->strides[0] = 1; /* transposed */
    f.strides[1] = 2;
    refused(&f, HR_ERR_INVALID, "strides", "contiguous");
    make_foreign(&f)->strides[0] = 0; /* broadcast */
    refused(&f, HR_ERR_INVALID, "strides", "stride 0");
}

static void strides_of_single_and_empty_dimensions_mean_nothing(void **state)
{
    struct foreign row, empty, element;
    hr_tensor *t;
    make_foreign(&row)->shape[0] = 1;
    row.strides[0] = 77;
    kit_ok(hr_tensor_from_dlpack(&row.m, &t));
    KIT_EXPECT(t, 1, 2, 3);
    hr_tensor_release(t);
    make_foreign(&empty)->shape[1] = 0;
    empty.strides[0] = -5;
    empty.m.tensor.data = NULL;
    kit_ok(hr_tensor_from_dlpack(&empty.m, &t));
    assert_int_equal(hr_tensor_count(t), 0);
    hr_tensor_release(t);
    make_foreign(&element)->m.tensor.ndim = 0;
    kit_ok(hr_tensor_from_dlpack(&element.m, &t));
    KIT_EXPECT(t, 1);
    hr_tensor_release(t);
    kit_ok(hr_stream_synchronize(hr_stream_current()));
    assert_int_equal(row.deleted, 1);
    assert_int_equal(empty.deleted, 1);
    assert_int_equal(element.deleted, 1);
}

static void other_types_shapes_and_places_are_refused(void **state)
{
    struct foreign f;
    make_foreign(&f)->m.tensor.dtype.bits = 64; /* double */
    refused(&f, HR_ERR_INVALID, "dtype", "64 bits");
    make_foreign(&f)->m.tensor.dtype.lanes = 4;
    refused(&f, HR_ERR_INVALID, "dtype", "4 lanes");
    make_foreign(&f)->m.tensor.ndim = HR_MAX_DIMS + 1;
    refused(&f, HR_ERR_INVALID, "shape", "5 dimensions");
    make_foreign(&f)->shape[0] = -2;
    refused(&f, HR_ERR_INVALID, "shape", "is -2");
    make_foreign(&f)->shape[0] = INT64_MAX / 2;
    refused(&f, HR_ERR_INVALID, "shape", "2^63");
    make_foreign(&f)->m.tensor.shape = NULL;
    refused(&f, HR_ERR_INVALID, "shape", "shape is NULL");
    make_foreign(&f)->m.tensor.device.type = 10; /* ROCm */
    refused(&f, HR_ERR_UNSUPPORTED, "device", "type 10");
    make_foreign(&f)->m.tensor.device.type =
        on_cuda() ? 1 : 2; /* the other of CPU and CUDA */
    refused(&f, HR_ERR_UNSUPPORTED, "device", on_cuda() ? "type 1" : "type 2");
    make_foreign(&f)->m.tensor.byte_offset = 2;
    refused(&f, HR_ERR_INVALID, "alignment", "4 bytes");
    make_foreign(&f)->m.tensor.data = NULL;
    refused(&f, HR_ERR_INVALID, "no_memory", "6 elements");
}

static void memory_of_another_gpu_is_refused_and_managed_memory_taken(void **state)
{
    struct foreign f;
    hr_tensor *t;
    if (!on_cuda())
        skip();
    make_foreign(&f)->m.tensor.device.id++;
    refused(&f, HR_ERR_UNSUPPORTED, "device", "number 1, for 'cuda'");
    make_foreign(&f)->m.tensor.device.type = 13;
    kit_ok(hr_tensor_from_dlpack(&f.m, &t));
    KIT_EXPECT(t, 1, 2, 3, 4, 5, 6);
    hr_tensor_release(t);
    kit_ok(hr_stream_synchronize(hr_stream_current()));
    assert_int_equal(f.deleted, 1);
}

static void without_a_device_nothing_is_taken(void **state)
{
    struct foreign f;
    hr_tensor *t;
    make_foreign(&f);
    kit_fails(hr_tensor_from_dlpack(NULL, &t), HR_ERR_INVALID, "no_tensor");
    kit_fails(hr_tensor_from_dlpack(&f.m, NULL), HR_ERR_INVALID, "no_out");
    hr_device_set_current(NULL);
    kit_fails(hr_tensor_from_dlpack(&f.m, &t), HR_ERR_STATE, "no_device");
    hr_device_set_current(kit_dev);
    assert_int_equal(f.deleted, 0);
}

/* ---- both ----------------------------------------------------------------------------- */
static void what_was_handed_out_comes_back_as_the_tensor_it_was(void **state)
{
    hr_tensor *t = KIT_TENSOR(1, 2, 3), *back;
    managed *m;
    versioned *v;
    void *at = hr_tensor_data(t);
    kit_ok(hr_tensor_to_dlpack(t, &m));
    hr_tensor_release(t);
    kit_ok(hr_tensor_from_dlpack(m, &back));
    assert_int_equal(hr_storage_claims(hr_tensor_storage(back)), 1);
    kit_ok(hr_tensor_to_dlpack_versioned(back, &v));
    hr_tensor_release(back);
    kit_ok(hr_tensor_from_dlpack_versioned(v, &back));
    assert_ptr_equal(hr_tensor_data(back), at);
    KIT_EXPECT(back, 1, 2, 3);
    hr_tensor_release(back);
    assert_int_equal(kit_live(),
                     0); /* at once: no foreign memory, no deleter to wait for */
}

static void *delete_there(void *arg)
{
    managed *m = arg;
    m->deleter(m);
    return NULL;
}

static void bytes_given_back_on_another_thread_are_collected(void **state)
{
    hr_tensor *t = KIT_TENSOR(1, 2);
    managed *m;
    pthread_t other;
    kit_ok(hr_tensor_to_dlpack(t, &m));
    hr_tensor_release(t);
    assert_int_equal(pthread_create(&other, NULL, delete_there, m), 0);
    hr_tensor *busy = KIT_TENSOR(3, 4); /* the issuing thread goes on meanwhile */
    hr_tensor_release(busy);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(kit_live(), 8);
    hr_dlpack_collect();
    assert_int_equal(kit_live(), 0);
}

/* From one device to another: the deleter runs on a stream of the second. */
static void bytes_of_another_device_are_collected_by_their_own(void **state)
{
    hr_device *second;
    hr_tensor *t = KIT_TENSOR(1, 2), *there;
    managed *m;
    void *at = hr_tensor_data(t);
    kit_ok(hr_stream_synchronize(hr_stream_current()));
    kit_ok(hr_tensor_to_dlpack(t, &m));
    hr_tensor_release(t);
    kit_ok(hr_device_open(test_backend(), NULL, &second));
    hr_device_set_current(second);
    kit_ok(hr_tensor_from_dlpack(m, &there));
    assert_ptr_equal(hr_tensor_data(there), at);
    KIT_EXPECT(there, 1, 2);
    hr_tensor_release(there);
    hr_device_close(second);
    hr_device_set_current(kit_dev);
    assert_int_equal(kit_live(), 8);
    t = KIT_TENSOR(3);
    kit_ok(hr_tensor_to_dlpack(t, &m)); /* collects */
    m->deleter(m);
    hr_tensor_release(t);
    assert_int_equal(kit_live(), 0);
}

static void other_versions_and_read_only_bytes_are_refused(void **state)
{
    hr_tensor *t = KIT_TENSOR(1), *back;
    versioned *v;
    kit_ok(hr_tensor_to_dlpack_versioned(t, &v));
    v->flags = 1;
    kit_fails(hr_tensor_from_dlpack_versioned(v, &back), HR_ERR_UNSUPPORTED,
              "read_only");
    v->flags = 2; /* a copy of its own is as good as any */
    v->major = 2;
    kit_fails(hr_tensor_from_dlpack_versioned(v, &back), HR_ERR_UNSUPPORTED, "version");
    v->major = 1;
    v->minor = 9;
    kit_ok(hr_tensor_from_dlpack_versioned(v, &back));
    hr_tensor_release(back);
    hr_tensor_release(t);
    kit_ok(hr_stream_synchronize(hr_stream_current()));
}

/* ---- the ABI -------------------------------------------------------------------------- */
static void structs_lie_as_in_dlpacks_header(void **state)
{
    const dlpack_layout *t = dlpack_theirs();
    if (!t) {
        print_message("skipped: dlpack/dlpack.h is not installed\n");
        skip();
    }
    const dlpack_layout ours = {
        .bytes = sizeof(managed),
        .data = offsetof(managed, tensor.data),
        .device_type = offsetof(managed, tensor.device.type),
        .device_id = offsetof(managed, tensor.device.id),
        .ndim = offsetof(managed, tensor.ndim),
        .code = offsetof(managed, tensor.dtype.code),
        .bits = offsetof(managed, tensor.dtype.bits),
        .lanes = offsetof(managed, tensor.dtype.lanes),
        .shape = offsetof(managed, tensor.shape),
        .strides = offsetof(managed, tensor.strides),
        .byte_offset = offsetof(managed, tensor.byte_offset),
        .manager_ctx = offsetof(managed, manager_ctx),
        .deleter = offsetof(managed, deleter),
        .cpu = HR__DL_CPU,
        .code_int = HR__DL_INT,
        .code_uint = HR__DL_UINT,
        .code_float = HR__DL_FLOAT,
        .code_bfloat = HR__DL_BFLOAT,
    };
    assert_memory_equal(&ours, t, sizeof ours);
}

static void functions_take_pointers_of_dlpacks_header(void **state)
{
    hr_tensor *t = KIT_TENSOR(1, 2), *back;
    hr_status st = dlpack_round_trip(t, &back);
    hr_tensor_release(t);
    if (st == HR_ERR_UNSUPPORTED) {
        print_message("skipped: dlpack/dlpack.h is not installed\n");
        skip();
    }
    kit_ok(st);
    KIT_EXPECT(back, 1, 2);
    hr_tensor_release(back);
}

static void versioned_struct_lies_as_in_dlpacks_header(void **state)
{
    const dlpack_versioned_layout *t = dlpack_theirs_versioned();
    if (!t) {
        print_message("skipped: no dlpack/dlpack.h of version 1.0 or later\n");
        skip();
    }
    const dlpack_versioned_layout ours = {
        .bytes = sizeof(versioned),
        .major = offsetof(versioned, major),
        .minor = offsetof(versioned, minor),
        .manager_ctx = offsetof(versioned, manager_ctx),
        .deleter = offsetof(versioned, deleter),
        .flags = offsetof(versioned, flags),
        .tensor = offsetof(versioned, tensor),
        .major_number = HR__DL_MAJOR,
        .read_only = HR__DL_READ_ONLY,
    };
    assert_memory_equal(&ours, t, sizeof ours);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(handed_out_tensor_describes_the_same_bytes),
        T(handed_out_view_begins_at_its_own_row),
        T(handed_out_bytes_stay_until_the_deleter),
        T(freed_tensor_is_not_handed_out),
        T(taken_in_tensor_is_the_same_bytes),
        T(deleter_runs_after_the_work_that_is_queued),
        T(without_a_deleter_nothing_is_called),
        T(what_is_not_dense_and_row_major_is_refused),
        T(strides_of_single_and_empty_dimensions_mean_nothing),
        T(other_types_shapes_and_places_are_refused),
        T(memory_of_another_gpu_is_refused_and_managed_memory_taken),
        T(without_a_device_nothing_is_taken),
        T(what_was_handed_out_comes_back_as_the_tensor_it_was),
        T(bytes_given_back_on_another_thread_are_collected),
        T(bytes_of_another_device_are_collected_by_their_own),
        T(other_versions_and_read_only_bytes_are_refused),
        T(functions_take_pointers_of_dlpacks_header),
        cmocka_unit_test(structs_lie_as_in_dlpacks_header),
        cmocka_unit_test(versioned_struct_lies_as_in_dlpacks_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
