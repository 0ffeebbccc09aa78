/* What a storage and a tensor are made of. For src/tensor and src/autograd only.
 *
 * Counts are atomic because a handle may be given up on another thread than the issuing one
 * (a rank's thread has ended); everything else belongs to the issuing thread. */
#ifndef HR_TENSOR_IMPL_H
#define HR_TENSOR_IMPL_H
#include "tensor/claim.h"
#include <stdatomic.h>

struct hr__stream_set {
    int n;
    hr_stream *stream[HR_MAX_STREAMS];
};

/* A claim is given up at a position in a stream; the bytes wait for all those positions.
 * Positions on streams other than home are recorded on the memory as they pass. */
struct hr_storage {
    atomic_int refs;       /* callers and tensors: the struct */
    atomic_int claims;     /* tensors, and the callers together: the bytes */
    atomic_int handles;    /* callers alone: the last one gives up `own_claim` */
    atomic_bool own_claim; /* of the callers, from create and wrap */
    atomic_bool home_used; /* a claim that was not the last ended at home's position */
    bool wrapped, symmetric;
    void *data; /* NULL once the bytes are gone */
    size_t bytes;
    hr_stream *home;
    void (*deleter)(void *ctx, void *ptr); /* wrapped memory from here on */
    void *deleter_ctx;
    struct hr__stream_set *used_on;
};

/* What produced a tensor: autograd's functions start with this. */
struct hr__graph {
    atomic_int refs;
    void (*release)(struct hr__graph *g);
};

struct hr_tensor {
    atomic_int refs;     /* handles */
    atomic_int keep;     /* the struct: 1 for all handles together, 1 for each view */
    atomic_bool claimed; /* has its claim */
    bool requires_grad;
    bool lends_grad; /* see autograd/lend_grad.h */
    uint8_t dtype, ndim;
    int32_t graph_output; /* which output of `graph` */
    int64_t shape[HR_MAX_DIMS];
    int64_t count;
    size_t offset; /* bytes from the storage's data */
    hr_storage *storage;
    hr_tensor *base;
    struct hr__graph *graph; /* NULL: a leaf */
    hr_tensor *grad;
    void *
        engine; /* the entry of the backward pass that is running; see autograd/engine.c */
    char name[32];
};

/* Give up one of `count`, which counts handles: was it the last? Whoever has the last one is alone with
 * it, since another can only be made from one that is held; so it costs no locked instruction.
 * (Claims are different: a tensor without one may ask for one at any time.) */
static inline bool hr__count_drop(atomic_int *count)
{
    if (atomic_load_explicit(count, memory_order_acquire) != 1)
        return atomic_fetch_sub(count, 1) == 1;
    atomic_store_explicit(count, 0, memory_order_relaxed);
    return true;
}

/* May carry a gradient. */
bool hr__dtype_is_real(hr_dtype t);

/* A storage with one reference and one claim, both for the tensor that is made over it. */
hr_status hr__storage_make(hr_stream *s, size_t bytes, hr_storage **out);
void hr__storage_ref(hr_storage *st);
void hr__storage_unref(hr_storage *st);
bool hr__storage_claim(hr_storage *st); /* false, and no claim, if the bytes are gone */
void hr__storage_unclaim(hr_storage *st, hr_stream *s); /* NULL: at home's position */

/* Same storage with a claim if there is one to be had; no base, no graph. */
hr_status hr__tensor_share(hr_tensor *t, size_t offset, int ndim, const int64_t *shape,
                           hr_tensor **out);
/* "[2, 3]" */
enum { HR__SHAPE_TEXT = 96 };
const char *hr__shape_text(const hr_tensor *t, char buf[HR__SHAPE_TEXT]);

/* The calling thread's stream, or ERR_STATE "no_device". */
hr_status hr__current_stream(const char *what, hr_stream **out);

#endif
