/* Inside the test double of the CUDA runtime; see cudart_double.h. */
#ifndef HR_DOUBLE_IMPL_H
#define HR_DOUBLE_IMPL_H
#include <pthread.h>
#include <stdatomic.h>

#pragma GCC visibility push(default)
#include "cudart_double.h"
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

/* ---- double_fault.c ------------------------------------------------------------------------------ */
/* At the beginning of each call: what it has to fail with, if anything. Calls that give something back do
 * so all the same, as CUDA's do: their errors are those of earlier work. */
cudaError_t double_enter(void);
#define ENTER()                                                                        \
    do {                                                                               \
        cudaError_t e_ = double_enter();                                               \
        if (e_ != cudaSuccess)                                                         \
            return e_;                                                                 \
    } while (0)
/* The same for a question whose answer is "not ready": that one counts as no call, unless it is the one to
 * fail, so that how often it is asked does not show. */
#define ENTER_UNLESS(waiting)                                                          \
    do {                                                                               \
        if (double_still(waiting))                                                     \
            return cudaErrorNotReady;                                                  \
        ENTER();                                                                       \
        if (waiting) /* another thread has made the call that fails */                 \
            return double_end(cudaErrorNotReady);                                      \
    } while (0)
bool double_still(bool waiting);
/* For `return`: the calling thread's last error becomes `e`, unless that is success. */
cudaError_t double_end(cudaError_t e);
/* A kernel did what none may: the context is dead. */
void double_die(const char *kernel, const char *wrong);
/* How many contexts have died: what was put on a stream of an earlier one is never run. */
int double_deaths(void);
/* The calling thread runs a host function, from where nothing may be called. */
void double_in_host_function(bool yes);

/* ---- handles ------------------------------------------------------------------------------------- */
typedef enum handle_kind { STREAM, EVENT, POOL, LIBRARY, KINDS } handle_kind;
typedef struct handle {
    struct handle *prev, *next;
    handle_kind kind;
} handle;
void double_register(handle *h, handle_kind kind);
void double_forget(handle *h);
bool double_knows(const void *h, handle_kind kind);

/* ---- double_queue.c: a thread that works off what a stream is given -------------------------------- */
/* What an event stands for: a place in a stream. Counted; an event, and operations under way, hold it. */
typedef struct point {
    atomic_int holders;
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool done;  /* mu */
    int64_t ns; /* mu */
} point;
point *double_point_new(void);
point *double_point_hold(point *p); /* NULL: NULL */
void double_point_drop(point *p);
bool double_point_done(point *p,
                       int64_t *ns); /* NULL: was never recorded, so is done */

typedef struct work work;
void double_reach(work *w); /* w->at */
void double_await(work *w);
struct work {
    void (*run)(work *w); /* on the stream's thread; frees what `w` holds, not `w` */
    work *next;
    int deaths; /* when it was put there */
    union {
        struct {
            cudaHostFn_t fn, drop; /* drop: in its place once the context has died */
            void *arg;
        } host;
        struct {
            void *dst;
            const void *src;
            size_t bytes;
        } copy;
        struct {
            void *dst;
            int byte;
            size_t bytes;
        } fill;
        point *at;
        void *block;
        void *kernel; /* double_kernel.c */
    };
};

struct CUstream_st {
    handle handle;
    int device, priority;
    pthread_mutex_t mu;
    pthread_cond_t cv;
    work *first, **last; /* mu */
    int pending;         /* mu; what runs counts */
    bool closing;        /* mu */
};
/* A stream of CUDA by its handle, the default one included; NULL: there is none. */
cudaStream_t double_stream(cudaStream_t s);
cudaError_t double_queue_start(cudaStream_t s);
void double_queue_close(cudaStream_t s); /* it is gone when it is empty */
cudaError_t double_put(cudaStream_t s, const work *w);

/* ---- double_memory.c ------------------------------------------------------------------------------- */
/* Where the bytes of [p, p + bytes) really are. NULL: they go past the end of their block. *known: CUDA
 * gave them. */
void *double_bytes(const void *p, size_t bytes, bool *known);
/* Between the two no block goes away. False, and no second call: the context of this work has died. */
bool double_touch_begin(const work *w);
void double_touch_end(void);
void double_blocks(long *n, size_t *bytes); /* that live */

int double_device(void); /* current in the calling thread */

#endif
