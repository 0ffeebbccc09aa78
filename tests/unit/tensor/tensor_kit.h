/* For the tests of tensors and of what is built on them: a device that poisons what is freed,
 * tensors from values and back, and the count of live bytes, which each test leaves at 0. */
#ifndef TENSOR_KIT_H
#define TENSOR_KIT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/tensor.h"
#include "support/backend.h"
#include <semaphore.h>
#include <string.h>

static hr_device *kit_dev;

static inline int kit_open(void **state)
{
    hr_device_opts opts = {HR_INIT(hr_device_opts), .poison = 1};
    if (hr_device_open(test_backend(), &opts, &kit_dev) < 0)
        return -1;
    hr_device_set_current(kit_dev);
    return 0;
}

static inline size_t kit_live(void)
{
    hr_mem_stats stats;
    hr_mem_get_stats(kit_dev, &stats);
    return stats.live_bytes;
}

static inline size_t kit_blocks(void)
{
    hr_mem_stats stats;
    hr_mem_get_stats(kit_dev, &stats);
    return stats.live_blocks;
}

static inline int kit_close(void **state)
{
    size_t live = kit_live();
    hr_device_close(kit_dev);
    return live == 0 ? 0 : -1;
}

#define kit_ok(expr) assert_int_equal((expr), HR_OK)
#define kit_fails(expr, status, reason)                                                \
    do {                                                                               \
        assert_int_equal((expr), (status));                                            \
        assert_string_equal(hr_last_reason(), (reason));                               \
    } while (0)

static inline hr_stream *kit_stream(const char *name)
{
    hr_stream *s;
    kit_ok(hr_stream_create(
        kit_dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = name}, &s));
    return s;
}

/* f32, one dimension of n. */
static inline hr_tensor *kit_tensor(const float *values, int64_t n)
{
    hr_tensor *t;
    kit_ok(hr_tensor_create(HR_F32, 1, &n, &t));
    kit_ok(hr_tensor_write(t, values, (size_t)n * sizeof *values));
    return t;
}

#define KIT_TENSOR(...)                                                                \
    kit_tensor((const float[]){__VA_ARGS__},                                           \
               sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

static inline void kit_expect(hr_tensor *t, const float *values, int64_t n)
{
    float got[64];
    assert_non_null(t);
    assert_int_equal(hr_tensor_count(t), n);
    assert_true(n <= 64);
    kit_ok(hr_tensor_read(t, got, (size_t)n * sizeof *values));
    assert_memory_equal(got, values, (size_t)n * sizeof *values);
}

#define KIT_EXPECT(t, ...)                                                             \
    kit_expect(t, (const float[]){__VA_ARGS__},                                        \
               sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

/* A launch that runs when it is told to. */
static inline hr_status kit_gate_kernel(const void *args, hr_team *team)
{
    sem_t *gate;
    memcpy(&gate, args, sizeof gate);
    while (sem_wait(gate) != 0)
        ;
    return HR_OK;
}

static inline void kit_gate(hr_stream *s, sem_t *gate)
{
    assert_int_equal(sem_init(gate, 0, 0), 0);
    kit_ok(hr_launch(s, "gate", kit_gate_kernel, &gate, sizeof gate, NULL, 0));
}

/* The probe: the last records, for comparison by kind and address. */
enum { KIT_RECORDS = 32 };
static hr_probe_record kit_record[KIT_RECORDS];
static int kit_records;

static inline void kit_probe_fn(void *ctx, const hr_probe_record *r)
{
    if (kit_records < KIT_RECORDS)
        kit_record[kit_records++] = *r;
}

static inline void kit_probe(int on)
{
    kit_records = 0;
    hr_probe_set(on ? kit_probe_fn : NULL, NULL);
}

#endif
