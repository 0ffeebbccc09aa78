/* Gradients sharded over data-parallel ranks: which range of a parameter is whose, and how a bucket of
 * several travels. A range follows from the parameter alone and not from its bucket, so that it is the same
 * for every layout of stages and every size of buckets; therefore a bucket is packed by rank for its way:
 *
 *     memory   a: a0 a1 a2 a3    b: b0 b1 b2
 *     packed   a0 a1 b0 b1 | a2 a3 b2 --          two ranks, each gets one half
 *
 * A parameter alone in its bucket is in that order as it lies, if it can be divided. */
#include "base/try.h"
#include "exec/grads_impl.h"

static int64_t share_of(int64_t count, int ranks)
{
    return count / ranks + (count % ranks != 0);
}

hr_grad_range hr__grads_share(int64_t count, const hr_group *over, int rank)
{
    int64_t each = share_of(count, over ? hr_group_size(over) : 1);
    int64_t begin = each * rank < count ? each * rank : count;
    return (hr_grad_range){begin, count - begin < each ? count - begin : each};
}

hr_grad_range hr_grads_range(const hr_grads *g, int i)
{
    if (g == NULL || i < 0 || i >= g->n)
        return (hr_grad_range){0, 0};
    const hr_grad_desc *d = &g->grads[i];
    return hr__grads_share(d->count, d->over, d->over ? hr_group_rank(d->over) : 0);
}

/* ---- a bucket on its way ------------------------------------------------------------------------ */
enum what { GRADIENTS, WEIGHTS };

typedef struct parcel {
    hr_grads *g;
    const hr__bucket *b;
    enum what what;
    size_t bytes;  /* of an element */
    int ranks, me; /* in b->over */
    bool packed;
    char *all;    /* parts of all ranks */
    int64_t each; /* elements of a part */
} parcel;

static char *memory_of(const parcel *p, const hr_grad_desc *d)
{
    return p->what == GRADIENTS ? (char *)d->grad : d->weight;
}

static char *part_of(const parcel *p, int rank)
{
    return p->all + (size_t)(rank * p->each) * p->bytes;
}

static hr_status open_parcel(hr_grads *g, const hr__bucket *b, enum what what,
                             parcel *p)
{
    *p = (parcel){.g = g,
                  .b = b,
                  .what = what,
                  .bytes =
                      what == WEIGHTS ? hr_dtype_bytes(g->weight_dtype) : sizeof(float),
                  .ranks = hr_group_size(b->over),
                  .me = hr_group_rank(b->over)};
    for (int i = 0; i < b->n; i++)
        p->each += share_of(g->order[b->at + i]->count, p->ranks);
    p->packed = p->each * p->ranks != b->count || b->n > 1;
    if (!p->packed) {
        p->all = memory_of(p, g->order[b->at]);
        return HR_OK;
    }
    void *all;
    HR_TRY(hr_mem_alloc(g->stream, (size_t)(p->each * p->ranks) * p->bytes, &all));
    p->all = all;
    return HR_OK;
}

static void close_parcel(const parcel *p)
{
    if (p->packed)
        hr_mem_free(p->all, p->g->stream);
}

/* What belongs to `rank` from its place into the parcel, or back. */
static hr_status move_part(const parcel *p, int rank, bool in)
{
    char *packed = part_of(p, rank);
    for (int i = 0; i < p->b->n && p->packed; i++) {
        const hr_grad_desc *d = p->g->order[p->b->at + i];
        hr_grad_range r = hr__grads_share(d->count, d->over, rank);
        char *at = memory_of(p, d) + (size_t)r.begin * p->bytes;
        if (r.count > 0)
            HR_TRY(hr_copy(p->g->stream, in ? packed : at, in ? at : packed,
                           (size_t)r.count * p->bytes));
        packed += (size_t)share_of(d->count, p->ranks) * p->bytes;
    }
    return HR_OK;
}

/* Copies add up the same numbers before ranks do, as without shards. */
static hr_status scatter(const parcel *p)
{
    hr_stream *s = p->g->stream;
    hr_group *copies = p->b->copies;
    for (int r = 0; r < p->ranks; r++)
        HR_TRY(move_part(p, r, true));
    if (!hr__alone(copies))
        HR_TRY(hr_all_reduce(copies, p->all, p->all, p->each * p->ranks, HR_F32, HR_SUM,
                             s));
    HR_TRY(hr_reduce_scatter(p->b->over, p->all, part_of(p, p->me), p->each, HR_F32,
                             HR_SUM, s));
    return move_part(p, p->me, false);
}

static hr_status collect(const parcel *p)
{
    HR_TRY(move_part(p, p->me, true));
    HR_TRY(hr_all_gather(p->b->over, part_of(p, p->me), p->all, p->each,
                         p->g->weight_dtype, p->g->stream));
    for (int r = 0; r < p->ranks; r++)
        if (r != p->me)
            HR_TRY(move_part(p, r, false));
    return HR_OK;
}

hr_status hr__grads_scatter(hr_grads *g, const hr__bucket *b)
{
    parcel p;
    HR_TRY(open_parcel(g, b, GRADIENTS, &p));
    hr_status st = scatter(&p);
    close_parcel(&p);
    return st;
}

hr_status hr__grads_collect(hr_grads *g, const hr__bucket *b)
{
    parcel p;
    HR_TRY(open_parcel(g, b, WEIGHTS, &p));
    hr_status st = collect(&p);
    close_parcel(&p);
    return st;
}

hr_status hr_grads_gather(hr_grads *g)
{
    HR_NEED(g);
    HR_TRY(hr__grads_fence(g, hr_stream_current(), g->stream));
    for (int i = 0; i < g->n_buckets; i++)
        if (g->buckets[i].scattered)
            HR_TRY(hr__grads_collect(g, &g->buckets[i]));
    return hr__grads_fence(g, g->stream, hr_stream_current());
}
