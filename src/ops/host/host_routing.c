/* Host kernels that move rows by index: embedding, sort_choices, gather and combine. Sums go in
 * the order of the tokens, and of a token's choices. */
#include "base/try.h"
#include "ops/host/host_wide.h"
#include <string.h>

enum { PART_ROWS = 256, PART_COLS = 256 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t row_bytes(const hr__rows_args *a)
{
    return (size_t)a->width * hr_dtype_bytes(a->type);
}

/* ---- gather and combine ---- */
static hr_status gather_part(void *arg, int i)
{
    const hr__rows_args *a = arg;
    int64_t begin = (int64_t)i * PART_ROWS, end = least(begin + PART_ROWS, a->n);
    size_t bytes = row_bytes(a);
    char *out = (char *)a->out;
    const char *x = (const char *)a->x;
    for (int64_t j = begin; j < end; j++)
        memcpy(out + (size_t)j * bytes, x + (size_t)a->map[j] * bytes, bytes);
    return HR_OK;
}

hr_status hr__host_gather(const void *args, hr_team *team)
{
    hr__rows_args a = *(const hr__rows_args *)args;
    HR_TRY(hr__indices_check("permute", "source", a.map, a.n, a.from, false));
    return a.width > 0 ? hr__parts_run(team, hr__parts(a.n, PART_ROWS), gather_part, &a)
                       : HR_OK;
}

static hr_status combine_part(void *arg, int i)
{
    const hr__rows_args *a = arg;
    int64_t begin = (int64_t)i * PART_ROWS, end = least(begin + PART_ROWS, a->n);
    for (int64_t n = begin; n < end; n++) {
        float *out = a->out + n * a->width;
        const int32_t *map = a->map + n * a->top_k;
        if (a->top_k == 0)
            memset(out, 0, row_bytes(a));
        else
            memcpy(out, a->x + map[0] * a->width, row_bytes(a));
        for (int64_t k = 1; k < a->top_k; k++)
            hr__vec_best()->add(out, out, a->x + map[k] * a->width, a->width);
    }
    return HR_OK;
}

hr_status hr__host_combine(const void *args, hr_team *team)
{
    hr__rows_args a = *(const hr__rows_args *)args;
    HR_TRY(hr__indices_check("permute", "slot", a.map, a.n * a.top_k, a.from, false));
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_combine, a, team,
                            {&a.out, a.n * a.width, HR_WRITE},
                            {&a.x, a.from * a.width, HR_READ});
    return a.width > 0
               ? hr__parts_run(team, hr__parts(a.n, PART_ROWS), combine_part, &a)
               : HR_OK;
}

hr_status hr__host_permute_probs(const void *args, hr_team *team)
{
    const hr__probs_args *a = args;
    HR_TRY(
        hr__indices_check("permute_probs", "slot", a->slot, a->count, a->count, false));
    for (int64_t i = 0; i < a->count; i++) {
        if (a->back)
            a->choices[i] = a->slots[a->slot[i]];
        else
            a->slots[a->slot[i]] = a->choices[i];
    }
    return HR_OK;
}

/* ---- embedding ---- */
hr_status hr__host_embedding(const void *args, hr_team *team)
{
    hr__embedding_args e = *(const hr__embedding_args *)args;
    HR_TRY(hr__indices_check("embedding", "ids", e.ids, e.n, e.vocabulary, false));
    hr__rows_args a = {.x = e.table,
                       .out = e.rows,
                       .map = e.ids,
                       .n = e.n,
                       .from = e.vocabulary,
                       .width = e.width,
                       .type = e.type};
    return a.width > 0 ? hr__parts_run(team, hr__parts(a.n, PART_ROWS), gather_part, &a)
                       : HR_OK;
}

/* Parts are columns, so that each sum goes over the tokens in order. */
static hr_status embedding_back_part(void *arg, int i)
{
    const hr__embedding_args *a = arg;
    int64_t begin = (int64_t)i * PART_COLS, cols = least(PART_COLS, a->width - begin);
    for (int64_t n = 0; n < a->n; n++) {
        float *to = a->table + a->ids[n] * a->width + begin;
        hr__vec_best()->add(to, to, a->rows + n * a->width + begin, cols);
    }
    return HR_OK;
}

hr_status hr__host_embedding_back(const void *args, hr_team *team)
{
    hr__embedding_args a = *(const hr__embedding_args *)args;
    HR_TRY(hr__indices_check("embedding", "ids", a.ids, a.n, a.vocabulary, false));
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_embedding_back, a, team,
                            {&a.rows, a.n * a.width, HR_READ});
    return hr__parts_run(team, hr__parts(a.width, PART_COLS), embedding_back_part, &a);
}

/* ---- sorting ---- */
/* A counting sort without memory of its own: `counts` holds in turn the counts, where each expert
 * begins, where it ends, and the counts again. */
hr_status hr__host_sort_choices(const void *args, hr_team *team)
{
    const hr__sort_args *a = args;
    int64_t copies = a->n * a->top_k;
    int32_t *at = a->counts, begin = 0;
    HR_TRY(hr__indices_check("sort_choices", "index", a->index, copies, a->experts,
                             false));
    memset(at, 0, (size_t)a->experts * sizeof *at);
    for (int64_t i = 0; i < copies; i++)
        at[a->index[i]]++;
    for (int64_t e = 0; e < a->experts; e++) {
        int32_t count = at[e];
        at[e] = begin;
        begin += count;
    }
    for (int64_t i = 0; i < copies; i++) {
        int32_t slot = at[a->index[i]]++;
        a->slot[i] = slot;
        a->source[slot] = (int32_t)(i / a->top_k);
    }
    for (int64_t e = a->experts - 1; e > 0; e--)
        at[e] -= at[e - 1];
    return HR_OK;
}
