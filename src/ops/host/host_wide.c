/* Host kernels on bf16; see host_wide.h. And conversion as a kernel of its own. */
#include "ops/host/host_wide.h"
#include "base/try.h"
#include <stdlib.h>
#include <string.h>

enum { ROUND = 16 }; /* floats; copies start at whole cache lines */

/* ---- conversion ---- */
static hr_status convert_part(void *arg, int i)
{
    const hr__convert_args *a = arg;
    int64_t at = (int64_t)i * HR__FLAT_ITEMS, count = a->count - at;
    count = count < HR__FLAT_ITEMS ? count : HR__FLAT_ITEMS;
    if (a->type == HR_BF16)
        hr__vec_best()->narrow((hr__bf16 *)a->to + at, (const float *)a->from + at,
                               count);
    else
        hr__vec_best()->widen((float *)a->to + at, (const hr__bf16 *)a->from + at,
                              count);
    return HR_OK;
}

hr_status hr__host_convert(const void *args, hr_team *team)
{
    hr__convert_args a = *(const hr__convert_args *)args;
    return hr__parts_run(team, hr__parts(a.count, HR__FLAT_ITEMS), convert_part, &a);
}

static hr_status convert(hr_team *team, void *to, const void *from, int64_t count,
                         hr_dtype type)
{
    hr__convert_args a = {.to = to, .from = from, .count = count, .type = type};
    return hr__host_convert(&a, team);
}

/* ---- running on copies ---- */
static void *pointer_of(const hr__wide *w)
{
    void *p;
    memcpy(&p, w->pointer, sizeof p);
    return p;
}

static int64_t floats_of(const hr__wide *w)
{
    return pointer_of(w) ? hr__parts(w->count, ROUND) * ROUND : 0;
}

static hr_status run_on(float *copy, hr_kernel f32, const void *args, hr_team *team,
                        const hr__wide *w, int n)
{
    void *given[HR__WIDE_MOST];
    float *mine[HR__WIDE_MOST];
    for (int i = 0; i < n; copy += floats_of(&w[i]), i++) {
        given[i] = pointer_of(&w[i]);
        mine[i] = given[i] ? copy : NULL;
        if (given[i] && w[i].access & HR_READ)
            HR_TRY(convert(team, copy, given[i], w[i].count, HR_F32));
    }
    for (int i = 0; i < n; i++)
        memcpy(w[i].pointer, &mine[i], sizeof mine[i]);
    HR_TRY(f32(args, team));
    for (int i = 0; i < n; i++)
        if (given[i] && w[i].access & HR_WRITE)
            HR_TRY(convert(team, given[i], mine[i], w[i].count, HR_BF16));
    return HR_OK;
}

hr_status hr__wide_run(hr_kernel f32, const void *args, hr_team *team,
                       const hr__wide *operands, int n)
{
    int64_t floats = ROUND;
    for (int i = 0; i < n; i++)
        floats += floats_of(&operands[i]);
    float *copies =
        aligned_alloc(ROUND * sizeof(float), (size_t)floats * sizeof(float));
    if (!copies)
        return hr_fail(HR_ERR_NOMEM, "memory",
                       "no memory for %lld numbers of bf16 as f32", (long long)floats);
    hr_status st = run_on(copies, f32, args, team, operands, n);
    free(copies);
    return st;
}
