/* For the tests of the CUDA backend over the test double: what only the double can say or do. */
#ifndef CUDA_KIT_H
#define CUDA_KIT_H
#include "device_kit.h"

#include <dlfcn.h>
#include <sched.h>

#include "doubles/cudart/cudart_double.h"

typedef struct double_api {
    long (*calls)(void);
    void (*fail_at)(long n, int code);
    void (*revive)(void);
    bool (*failed)(void);
    void (*count)(double_live *out);
    int64_t (*pool_attribute)(int which);
    int (*last_priority)(void);
    unsigned (*last_event_flags)(void);
} double_api;

static inline void *double_symbol(const char *name)
{
    void *library = dlopen(getenv("HEADRACE_CUDART"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *symbol = dlsym(library, name);
    assert_non_null(symbol);
    return symbol;
}

/* ISO C has no cast from object to function. */
static inline double_api get_double(void)
{
    static const char *const names[] = {
        "headrace_double_calls",         "headrace_double_fail",
        "headrace_double_revive",        "headrace_double_failed",
        "headrace_double_count",         "headrace_double_pool_attribute",
        "headrace_double_last_priority", "headrace_double_last_event_flags"};
    double_api api;
    assert_int_equal(sizeof api, sizeof names);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *symbol = double_symbol(names[i]);
        memcpy((char *)&api + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return api;
}

/* Frees in stream order come when their stream's thread has come so far. */
static inline void assert_nothing_lives(const double_api *api)
{
    double_live l;
    for (int looks = 0; looks < 1000000; looks++) {
        api->count(&l);
        if (l.blocks == 0)
            break;
        sched_yield();
    }
    assert_int_equal(l.streams, 0);
    assert_int_equal(l.events, 0);
    assert_int_equal(l.pools, 0);
    assert_int_equal(l.blocks, 0);
}

#endif
