/* For the tests of groups over NCCL, on the test doubles of NCCL and of the CUDA runtime, whose memory of the device is
 * hidden from the host: what ranks send lies on the GPU, or on the host by intent. */
#ifndef NCCL_KIT_H
#define NCCL_KIT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/group_nccl.h"

#include <string.h>

#define TRY(expr)                                                                      \
    do {                                                                               \
        hr_status st_ = (expr);                                                        \
        if (st_ < 0)                                                                   \
            return st_;                                                                \
    } while (0)
#define CHECK(cond)                                                                    \
    do {                                                                               \
        if (!(cond))                                                                   \
            return hr_fail(HR_ERR_CALLBACK, "check", "line %d: not %s", __LINE__,      \
                           #cond);                                                     \
    } while (0)

/* fn(world, arg) on ranks that are threads, over NCCL. */
typedef struct over_nccl {
    hr_rank_fn fn;
    void *arg;
    double timeout_s; /* 0: a minute */
} over_nccl;

static inline hr_status run_over(hr_group *base, void *over_)
{
    const over_nccl *over = over_;
    hr_group *world;
    double limit = over->timeout_s > 0 ? over->timeout_s : 60;
    TRY(hr_group_over_nccl(
        base, &(hr_nccl_opts){HR_INIT(hr_nccl_opts), .timeout_s = limit}, &world));
    hr_status st = over->fn(world, over->arg);
    char said[512];
    snprintf(said, sizeof said, "%s", hr_last_error());
    if (st < 0)
        hr_group_abort(world, st);
    hr_group_release(world);
    return st < 0 ? hr_fail(st, hr_last_reason(), "%s", said) : HR_OK;
}

static inline hr_status run_nccl(int n, over_nccl over)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .backend = "cuda",
                       .timeout_s = over.timeout_s > 0 ? over.timeout_s : 60};
    return hr_local_run(n, &o, run_over, &over);
}

static inline void succeeds(int n, hr_rank_fn fn, void *arg)
{
    hr_status st = run_nccl(n, (over_nccl){fn, arg, 0});
    if (st < 0)
        print_error("%d ranks: %s\n", n, hr_last_error());
    assert_int_equal(st, HR_OK);
}

static inline void fails(int n, over_nccl over, hr_status wanted, const char *words)
{
    hr_status st = run_nccl(n, over);
    if (st != wanted || !strstr(hr_last_error(), words))
        print_error("%s: %s\n", hr_status_name(st), hr_last_error());
    assert_int_equal(st, wanted);
    assert_non_null(strstr(hr_last_error(), words));
}

/* Memory of the device that holds these bytes. */
static inline hr_status on_gpu(const void *from, size_t bytes, void **out)
{
    hr_stream *s = hr_stream_current();
    TRY(hr_mem_alloc(s, bytes, out));
    TRY(hr_copy(s, *out, from, bytes));
    return hr_stream_synchronize(s);
}

/* What is there once the stream has come so far. */
static inline hr_status from_gpu(void *to, const void *from, size_t bytes)
{
    hr_stream *s = hr_stream_current();
    TRY(hr_copy(s, to, from, bytes));
    return hr_stream_synchronize(s);
}

#endif
