/* What the files of the gradients share. Internal to src/exec. */
#ifndef HR_GRADS_IMPL_H
#define HR_GRADS_IMPL_H
#include "headrace/exec.h"

/* Gradients that lie side by side and go the same way. */
typedef struct hr__bucket {
    float *grad;
    int64_t count;
    int stage;
    hr_group *copies, *over; /* NULL: nothing to sum there */
} hr__bucket;

/* Entries `at` to `at + n - 1` of the options have ids from `id`, and this rank counts them. */
typedef struct hr__counted {
    int at, id, n;
} hr__counted;

struct hr_grads {
    int ids, n, n_buckets, n_counted, n_stages;
    hr_grad_desc *grads; /* as given; their groups are retained */
    hr__bucket *buckets; /* in order of stage, then of the first id */
    hr__counted *counted;
    bool *reduced; /* [n_stages] in this step */
    bool finished;
    hr_group *world;
    hr_stream *stream;
    hr_event *fence;
    hr_tensor *squares; /* i64 [ids + 1], the bits of doubles; last: how many refuse */
};

/* Cut the gradients into buckets. False without memory. */
bool hr__grads_cut(hr_grads *g, size_t bucket_bytes);
/* Decide which entries this rank counts, and check over the world that each id is counted once
 * and no rank has refused its entries. */
hr_status hr__grads_count(hr_grads *g, bool refused);

/* Work issued to `to` from now on comes after what `from` has now. */
static inline hr_status hr__grads_fence(hr_grads *g, hr_stream *from, hr_stream *to)
{
    hr_status st = hr_event_record(g->fence, from);
    return st < 0 ? st : hr_event_wait(g->fence, to);
}

#endif
