/* How gradients are cut into buckets: what is of one stage and goes over the same groups, up to a size. */
#include "exec/grads_impl.h"

#include <stdlib.h>

/* In one order on all ranks that share any of them: of stage, then of id. Addresses would not do. */
static int by_stage_and_id(const void *a, const void *b)
{
    const hr_grad_desc *x = *(const hr_grad_desc *const *)a;
    const hr_grad_desc *y = *(const hr_grad_desc *const *)b;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* What is being cut. */
typedef struct cut {
    const hr_grad_desc **sorted;
    const float **end; /* [buckets] where the next neighbour would be */
    int *home;         /* of sorted[i]; -1: nothing to sum */
    int n;
    int64_t most;
} cut;

static bool continues(const cut *c, const hr__bucket *b, const float *end,
                      const hr_grad_desc *d)
{
    return b->count + d->count <= c->most && b->copies == d->copies &&
           b->over == d->over && (b->scattered || end == d->grad);
}

/* The bucket for `d`: one that it continues, or a new one. Regions of memory take turns, so the former
 * need not be the last. */
static int bucket_for(hr_grads *g, const cut *c, const hr_grad_desc *d)
{
    for (int i = g->n_buckets - 1; i >= 0 && g->buckets[i].stage == d->stage; i--)
        if (continues(c, &g->buckets[i], c->end[i], d))
            return i;
    g->buckets[g->n_buckets] =
        (hr__bucket){.stage = d->stage,
                     .copies = d->copies,
                     .over = d->over,
                     .scattered = g->shard && !hr__alone(d->over)};
    return g->n_buckets++;
}

static void put_into_buckets(hr_grads *g, cut *c)
{
    for (int i = 0; i < c->n; i++) {
        const hr_grad_desc *d = c->sorted[i];
        c->home[i] = -1;
        if ((hr__alone(d->copies) && hr__alone(d->over)) || d->count == 0)
            continue;
        c->home[i] = bucket_for(g, c, d);
        g->buckets[c->home[i]].n++;
        g->buckets[c->home[i]].count += d->count;
        c->end[c->home[i]] = d->grad + d->count;
    }
}

static void list_by_bucket(hr_grads *g, const cut *c)
{
    int at = 0;
    for (int b = 0; b < g->n_buckets; b++) {
        g->buckets[b].at = at;
        at += g->buckets[b].n;
        g->buckets[b].n = 0;
    }
    for (int i = 0; i < c->n; i++)
        if (c->home[i] >= 0) {
            hr__bucket *b = &g->buckets[c->home[i]];
            g->order[b->at + b->n++] = c->sorted[i];
        }
}

bool hr__grads_cut(hr_grads *g, size_t bucket_bytes)
{
    size_t n = (size_t)g->n + 1;
    cut c = {.sorted = calloc(n, sizeof(const hr_grad_desc *)),
             .end = calloc(n, sizeof(const float *)),
             .home = calloc(n, sizeof *c.home),
             .n = g->n,
             .most = (int64_t)(bucket_bytes / sizeof(float))};
    bool room = c.sorted && c.end && c.home;
    for (int i = 0; i < g->n && room; i++)
        c.sorted[i] = &g->grads[i];
    if (room) {
        qsort(c.sorted, (size_t)g->n, sizeof(const hr_grad_desc *), by_stage_and_id);
        put_into_buckets(g, &c);
        list_by_bucket(g, &c);
    }
    free(c.sorted);
    free(c.end);
    free(c.home);
    return room;
}
