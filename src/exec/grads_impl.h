/* What the files of the gradients share. Internal to src/exec. */
#ifndef HR_GRADS_IMPL_H
#define HR_GRADS_IMPL_H
#include "headrace/exec.h"

/* Gradients that go the same way together: g->order[at] to [at + n - 1]. They lie side by side, so that
 * they are one run of `count` from the first of them on, unless they are scattered. */
typedef struct hr__bucket {
    int at, n, stage;
    int64_t count;
    hr_group *copies, *over; /* NULL: nothing to sum there */
    bool scattered;          /* each rank of `over` gets its own ranges alone */
} hr__bucket;

/* Entries `at` to `at + n - 1` of the options have their squares in the words from `word`. */
typedef struct hr__counted {
    int at, n;
    int64_t word;
} hr__counted;

struct hr_grads {
    int ids, n, n_buckets, n_counted, n_stages;
    bool shard;
    hr_dtype weight_dtype;
    hr_grad_desc *grads;        /* as given; their groups are retained */
    const hr_grad_desc **order; /* those of buckets, bucket by bucket */
    hr__bucket *buckets;        /* in order of stage, then of the first id */
    hr__counted *counted;
    int *slices;   /* [ids] ranks that a parameter's ranges are spread over */
    bool *reduced; /* [n_stages] in this step */
    bool finished;
    hr_group *world;
    hr_stream *stream;
    hr_event *fence;
    hr_tensor *squares; /* i64, the bits of doubles */
};

static inline bool hr__alone(const hr_group *g)
{
    return g == NULL || hr_group_size(g) == 1;
}

/* Cut the gradients into buckets. False without memory. */
bool hr__grads_cut(hr_grads *g, size_t bucket_bytes);
/* Check over the world that each id has holders that name each other, that all ranks shard or none, and
 * that no rank has refused its entries; then say which word of the squares is whose. */
hr_status hr__grads_count(hr_grads *g, bool refused);
/* Of `count` elements, what belongs to rank `rank` of `over`. */
hr_grad_range hr__grads_share(int64_t count, const hr_group *over, int rank);

/* Sums of a scattered bucket over its groups, to each rank its own ranges; and the weights of these to all. */
hr_status hr__grads_scatter(hr_grads *g, const hr__bucket *b);
hr_status hr__grads_collect(hr_grads *g, const hr__bucket *b);

/* Work issued to `to` from now on comes after what `from` has now. */
static inline hr_status hr__grads_fence(hr_grads *g, hr_stream *from, hr_stream *to)
{
    hr_status st = hr_event_record(g->fence, from);
    return st < 0 ? st : hr_event_wait(g->fence, to);
}

#endif
