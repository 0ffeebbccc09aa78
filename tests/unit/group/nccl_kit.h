/* For the tests of groups over NCCL, on the test doubles of NCCL and of the CUDA runtime, whose memory of the device is
 * hidden from the host: what ranks send lies on the GPU, or on the host by intent. */
#ifndef NCCL_KIT_H
#define NCCL_KIT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conform/group/nccl_world.h"
#include "doubles/nccl/nccl_double.h"

#include <dlfcn.h>
#include <stdlib.h>

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

static inline hr_status run_nccl(int n, double timeout_s, hr_rank_fn fn, void *arg)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .backend = "cuda",
                       .timeout_s = timeout_s};
    return nccl_world(n, &o, fn, arg);
}

static inline void succeeds(int n, hr_rank_fn fn, void *arg)
{
    hr_status st = run_nccl(n, 60, fn, arg);
    if (st < 0)
        print_error("%d ranks: %s\n", n, hr_last_error());
    assert_int_equal(st, HR_OK);
}

/* With this time limit fn fails so, and the sentence holds `words`. */
static inline void fails(int n, double timeout_s, hr_rank_fn fn, void *arg,
                         hr_status wanted, const char *words)
{
    hr_status st = run_nccl(n, timeout_s, fn, arg);
    if (st != wanted || !strstr(hr_last_error(), words))
        print_error("%s: %s\n", hr_status_name(st), hr_last_error());
    assert_int_equal(st, wanted);
    assert_non_null(strstr(hr_last_error(), words));
}

/* ---- what only the doubles can say or do ---- */
static inline void *symbol_of(const char *library, const char *name)
{
    void *l = dlopen(getenv(library), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(l);
    void *symbol = dlsym(l, name);
    assert_non_null(symbol);
    return symbol;
}

/* ISO C has no cast from object to function. */
static inline void count_live(nccl_live *out)
{
    void (*count)(nccl_live * out);
    void *symbol = symbol_of("HEADRACE_NCCL", "headrace_nccl_count");
    memcpy(&count, &symbol, sizeof count);
    count(out);
}

static inline void break_all(int result)
{
    void (*break_them)(int result);
    void *symbol = symbol_of("HEADRACE_NCCL", "headrace_nccl_break");
    memcpy(&break_them, &symbol, sizeof break_them);
    break_them(result);
}

/* ---- memory of the GPU ---- */
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
