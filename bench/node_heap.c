/* Calls of the heap in steady state: how often a node's forward and backward, a node of a layer pair,
 * and the whole life of a microbatch's plan go to malloc, calloc, realloc or aligned_alloc, from
 * whatever thread, after some rounds that fill the library's lists. The functions below stand in
 * front of those of the C library for the whole program, the library included. */
#include "bench.h"
#include "node_rounds.h"
#include <stdatomic.h>

static atomic_ulong allocations, frees;

/* NOLINTBEGIN: names that are glibc's. Its own functions, under what it keeps for this: */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t alignment, size_t n);
extern void __libc_free(void *p);

HR_API void *malloc(size_t n)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_malloc(n);
}

HR_API void *calloc(size_t n, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_calloc(n, size);
}

HR_API void *realloc(void *p, size_t n)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_realloc(p, n);
}

HR_API void *aligned_alloc(size_t alignment, size_t n)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_memalign(alignment, n);
}

HR_API int posix_memalign(void **out, size_t alignment, size_t n)
{
    *out = aligned_alloc(alignment, n);
    return *out ? 0 : 12; /* ENOMEM */
}

HR_API void free(void *p)
{
    if (p)
        atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
    __libc_free(p);
}
/* NOLINTEND */

enum { WARM = 8, COUNTED = 16 };

typedef struct count {
    unsigned long made, freed;
} count;

static count measure(rounds *r, void (*make)(rounds *), void (*run)(rounds *),
                     void (*drop)(rounds *))
{
    count c = {0, 0};
    for (int i = 0; i < WARM + COUNTED; i++) {
        make(r);
        unsigned long made = atomic_load(&allocations), freed = atomic_load(&frees);
        run(r);
        ok(hr_device_synchronize(r->dev));
        if (i >= WARM) {
            c.made += atomic_load(&allocations) - made;
            c.freed += atomic_load(&frees) - freed;
        }
        drop(r);
    }
    return c;
}

static void say(const char *name, count c, int units)
{
    bench_say(name, (double)c.made / ((double)COUNTED * units), "allocations");
    if (c.made != c.freed)
        fprintf(stderr, "%s: %lu allocations, %lu frees\n", name, c.made, c.freed);
}

/* A timeline is made by calloc(): where that is not seen, nothing is. */
static void check_counter(void)
{
    unsigned long made = atomic_load(&allocations), freed = atomic_load(&frees);
    hr_timeline *t;
    ok(hr_timeline_create(1, &t));
    hr_timeline_destroy(t);
    if (atomic_load(&allocations) == made || atomic_load(&frees) == freed) {
        fprintf(stderr, "node_heap: the library's calls of the heap are not seen\n");
        exit(1);
    }
}

int main(void)
{
    static rounds r;
    rounds_begin(&r, "host");
    check_counter();
    say("node", measure(&r, nodes_make, nodes_run, nodes_drop), ROUND_NODES);
    say("pair", measure(&r, pairs_make, pairs_run, pairs_drop), ROUND_PAIRS * 10);
    say("plan", measure(&r, plans_keep, plans_run, plans_keep), ROUND_PLANS);
    bench_say("plan nodes", PLAN_NODES, "nodes");
    return 0; /* the device lives as long as the process */
}
