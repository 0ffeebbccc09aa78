/* The global norm. Squares travel as the bits of doubles, each from the one rank that counts it and
 * zeros from the others: sums of integers are exact, and so the order of addition can be that of
 * the ids, whatever rank had which.
 *
 * Each rank counts its own range of a parameter, one of as many slices as there are ranks in `over`. A row
 * of words has one slice of each parameter that has so many, in order of id; so what a rank has in one row
 * lies side by side:
 *
 *     slices of parameters 0 1 2 3: 2 4 2 2       row 0: 0 1 2 3   row 1: 0 1 2 3   row 2: 1   row 3: 1
 */
#include "base/try.h"
#include "exec/grads_impl.h"

#include <math.h>
#include <stdlib.h>

static int slice_of(const hr_grad_desc *d)
{
    return d->over ? hr_group_rank(d->over) : 0;
}

static int slices_of(const hr_grad_desc *d)
{
    return d->over ? hr_group_size(d->over) : 1;
}

/* Of ranks that hold copies the first counts. */
static bool counts(const hr_grad_desc *d)
{
    return d->copies == NULL || hr_group_rank(d->copies) == 0;
}

/* Sum of `host` over the world, through device memory. */
static hr_status sum_over_world(hr_grads *g, int64_t *host, int64_t words)
{
    hr_tensor *t;
    HR_TRY(hr_tensor_create(HR_I64, 1, &words, &t));
    int64_t *at = hr_tensor_data(t);
    hr_status st = hr_tensor_write(t, host, hr_tensor_bytes(t));
    if (st >= 0)
        st = hr_all_reduce(g->world, at, at, words, HR_I64, HR_SUM, g->stream);
    if (st >= 0)
        st = hr_tensor_read(t, host, hr_tensor_bytes(t));
    hr_tensor_release(t);
    return st;
}

/* ---- who counts what --------------------------------------------------------------------------- */
/* Over the world, of each id: how many count it, and the sum of how many slices these say it has. If they
 * are one group, each of it says their number. */
typedef struct census {
    int64_t *times, *slices; /* [ids] */
    int64_t *refuse, *shard; /* [1] ranks that do */
    int64_t words;
} census;

static hr_status check_census(const hr_grads *g, const census *c)
{
    int ranks = hr_group_size(g->world);
    if (*c->refuse)
        return hr_fail(
            HR_ERR_INVALID, "grads_entry",
            "gradients: %lld of the other ranks have an entry that cannot be",
            (long long)*c->refuse);
    if (*c->shard != 0 && *c->shard != ranks)
        return hr_fail(HR_ERR_MISMATCH, "grads_shard",
                       "gradients: %lld of %d ranks shard them, the others do not",
                       (long long)*c->shard, ranks);
    for (int i = 0; i < g->ids; i++)
        if (c->times[i] == 0 || c->slices[i] != c->times[i] * c->times[i])
            return hr_fail(HR_ERR_MISMATCH, "grads_ids",
                           "gradients: parameter %d of %d is counted %lld times over "
                           "all ranks; its holders must name each other",
                           i, g->ids, (long long)c->times[i]);
    return HR_OK;
}

static hr_status take_census(hr_grads *g, bool refused, const census *c)
{
    *c->refuse = refused;
    *c->shard = g->shard;
    for (int i = 0; i < g->n; i++)
        if (counts(&g->grads[i])) {
            c->times[g->grads[i].id]++;
            c->slices[g->grads[i].id] += slices_of(&g->grads[i]);
        }
    HR_TRY(sum_over_world(g, c->times, c->words));
    return check_census(g, c);
}

/* ---- where the squares go -------------------------------------------------------------------------- */
static int most_slices(const hr_grads *g)
{
    int most = 0;
    for (int i = 0; i < g->ids; i++)
        most = g->slices[i] > most ? g->slices[i] : most;
    return most;
}

static void add_counted(hr_grads *g, int entry, int64_t word)
{
    hr__counted *last = &g->counted[g->n_counted - 1];
    if (g->n_counted > 0 && last->at + last->n == entry && last->word + last->n == word)
        last->n++;
    else
        g->counted[g->n_counted++] = (hr__counted){.at = entry, .n = 1, .word = word};
}

/* `words`: of each id, room to work. */
static hr_status place(hr_grads *g, int64_t *words)
{
    int64_t n = 0;
    int rows = most_slices(g);
    for (int row = 0; row < rows; row++) {
        for (int i = 0; i < g->ids; i++)
            words[i] = g->slices[i] > row ? n++ : -1;
        for (int i = 0; i < g->n; i++)
            if (counts(&g->grads[i]) && slice_of(&g->grads[i]) == row)
                add_counted(g, i, words[g->grads[i].id]);
    }
    return hr_tensor_create(HR_I64, 1, &n, &g->squares);
}

hr_status hr__grads_count(hr_grads *g, bool refused)
{
    census c = {.words = 2 * (int64_t)g->ids + 2};
    c.times = calloc((size_t)c.words, sizeof *c.times);
    if (c.times == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d parameters", g->ids);
    c.slices = c.times + g->ids;
    c.refuse = c.slices + g->ids;
    c.shard = c.refuse + 1;
    hr_status st = take_census(g, refused, &c);
    for (int i = 0; i < g->ids && st >= 0; i++)
        g->slices[i] = (int)c.times[i];
    if (st >= 0)
        st = place(g, c.times);
    free(c.times);
    return st;
}

/* ---- in each step ---------------------------------------------------------------------------------- */
/* The squares that this rank counts, each in its word. */
static hr_status lay_out(hr_grads *g, const double *squares)
{
    int64_t *to = hr_tensor_data(g->squares), n = hr_tensor_count(g->squares);
    HR_TRY(hr_fill(g->stream, to, 0, hr_tensor_bytes(g->squares)));
    for (int i = 0; i < g->n_counted; i++) {
        const hr__counted *c = &g->counted[i];
        HR_TRY(hr_copy(g->stream, to + c->word, squares + c->at,
                       (size_t)c->n * sizeof *to));
    }
    return hr_all_reduce(g->world, to, to, n, HR_I64, HR_SUM, g->stream);
}

/* Slices in order, then parameters in order. `sums`: of each id, zeros. */
static double add_up(const hr_grads *g, const double *word, double *sums)
{
    double total = 0;
    int rows = most_slices(g);
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < g->ids; i++)
            if (g->slices[i] > row)
                sums[i] += *word++;
    for (int i = 0; i < g->ids; i++)
        total += sums[i];
    return total;
}

hr_status hr_grads_norm(hr_grads *g, const double *squares, double *norm)
{
    HR_NEED(g);
    HR_NEED(norm);
    size_t words = (size_t)hr_tensor_count(g->squares);
    double *host = calloc(words + (size_t)g->ids + 1, sizeof *host);
    hr_stream *previous, *current = hr_stream_current();
    if (host == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %zu squares", words);
    hr_status st = hr__grads_fence(g, current, g->stream);
    if (st >= 0)
        st = lay_out(g, squares);
    hr_stream_enter(g->stream, &previous);
    if (st >= 0)
        st = hr_tensor_read(g->squares, host, hr_tensor_bytes(g->squares));
    hr_stream_exit(g->stream, previous);
    if (st >= 0) /* `squares` may be written again */
        st = hr__grads_fence(g, g->stream, current);
    if (st >= 0)
        *norm = sqrt(add_up(g, host, host + words));
    free(host);
    return st;
}
