/* Host kernels that go element by element or row by row: add, rmsnorm, swiglu, cross_entropy,
 * sum_squares, adamw. */
#include "base/try.h"
#include "ops/host/host_wide.h"

/* A part of rows: as many as make HR__FLAT_ITEMS elements, by the width alone. */
static int64_t rows_a_part(int64_t width)
{
    int64_t rows = HR__FLAT_ITEMS / (width > 0 ? width : 1);
    return rows > 0 ? rows : 1;
}

struct range {
    int64_t begin, count;
};

static struct range part_range(int64_t total, int64_t size, int i)
{
    struct range r = {i * size, size};
    if (r.count > total - r.begin)
        r.count = total - r.begin;
    return r;
}

/* ---- add ---- */
static hr_status add_part(void *arg, int i)
{
    const hr__add_args *a = arg;
    struct range r = part_range(a->count, HR__FLAT_ITEMS, i);
    hr__vec_best()->add(a->out + r.begin, a->a + r.begin, a->b + r.begin, r.count);
    return HR_OK;
}

hr_status hr__host_add(const void *args, hr_team *team)
{
    hr__add_args a = *(const hr__add_args *)args;
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_add, a, team, {&a.out, a.count, HR_WRITE},
                            {&a.a, a.count, HR_READ}, {&a.b, a.count, HR_READ});
    return hr__parts_run(team, hr__parts(a.count, HR__FLAT_ITEMS), add_part, &a);
}

/* ---- rmsnorm ---- */
static hr_status rmsnorm_part(void *arg, int i)
{
    const hr__rmsnorm_args *a = arg;
    struct range r = part_range(a->n, HR__NORM_ROWS, i);
    int64_t at = r.begin * a->width;
    hr__vec_best()->rmsnorm(a->y + at, a->x + at, a->g, r.count, a->width, a->eps);
    return HR_OK;
}

hr_status hr__host_rmsnorm(const void *args, hr_team *team)
{
    hr__rmsnorm_args a = *(const hr__rmsnorm_args *)args;
    int64_t count = a.n * a.width;
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_rmsnorm, a, team, {&a.y, count, HR_WRITE},
                            {&a.x, count, HR_READ}, {&a.g, a.width, HR_READ});
    return hr__parts_run(team, hr__parts(a.n, HR__NORM_ROWS), rmsnorm_part, &a);
}

static hr_status rmsnorm_back_part(void *arg, int i)
{
    const hr__rmsnorm_args *a = arg;
    struct range r = part_range(a->n, HR__NORM_ROWS, i);
    int64_t at = r.begin * a->width;
    float *dg = a->dg ? a->partial + i * a->width : NULL;
    hr__vec_best()->rmsnorm_back(a->y + at, dg, a->x + at, a->g, a->dy + at, r.count,
                                 a->width, a->eps);
    return HR_OK;
}

hr_status hr__host_rmsnorm_back(const void *args, hr_team *team)
{
    hr__rmsnorm_args a = *(const hr__rmsnorm_args *)args;
    int64_t count = a.n * a.width;
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_rmsnorm_back, a, team, {&a.y, count, HR_WRITE},
                            {&a.x, count, HR_READ}, {&a.g, a.width, HR_READ},
                            {&a.dy, count, HR_READ});
    int64_t parts = hr__parts(a.n, HR__NORM_ROWS);
    HR_TRY(hr__parts_run(team, parts, rmsnorm_back_part, &a));
    for (int64_t i = 0; a.dg && i < parts; i++)
        hr__vec_best()->add(a.dg, a.dg, a.partial + i * a.width, a.width);
    return HR_OK;
}

/* ---- swiglu ---- */
static hr_status swiglu_part(void *arg, int i)
{
    const hr__swiglu_args *a = arg;
    struct range r = part_range(a->n, rows_a_part(a->width), i);
    hr__vec_best()->swiglu(a->y + r.begin * a->width, a->x + r.begin * 2 * a->width,
                           a->scale ? a->scale + r.begin : NULL, r.count, a->width);
    return HR_OK;
}

static hr__swiglu_args live_rows(const void *args)
{
    hr__swiglu_args a = *(const hr__swiglu_args *)args;
    if (a.live && *a.live < a.n)
        a.n = *a.live;
    return a;
}

hr_status hr__host_swiglu(const void *args, hr_team *team)
{
    hr__swiglu_args a = live_rows(args);
    int64_t count = a.n * a.width;
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_swiglu, a, team, {&a.y, count, HR_WRITE},
                            {&a.x, 2 * count, HR_READ});
    return hr__parts_run(team, hr__parts(a.n, rows_a_part(a.width)), swiglu_part, &a);
}

static hr_status swiglu_back_part(void *arg, int i)
{
    const hr__swiglu_args *a = arg;
    struct range r = part_range(a->n, rows_a_part(a->width), i);
    hr__vec_best()->swiglu_back(
        a->y + r.begin * 2 * a->width, a->dscale ? a->dscale + r.begin : NULL,
        a->x + r.begin * 2 * a->width, a->scale ? a->scale + r.begin : NULL,
        a->dy + r.begin * a->width, r.count, a->width);
    return HR_OK;
}

hr_status hr__host_swiglu_back(const void *args, hr_team *team)
{
    hr__swiglu_args a = live_rows(args);
    int64_t count = a.n * a.width;
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_swiglu_back, a, team, {&a.y, 2 * count, HR_WRITE},
                            {&a.x, 2 * count, HR_READ}, {&a.dy, count, HR_READ});
    return hr__parts_run(team, hr__parts(a.n, rows_a_part(a.width)), swiglu_back_part,
                         &a);
}

/* ---- cross entropy ---- */
static hr_status log_sum_exp_part(void *arg, int i)
{
    const hr__cross_entropy_args *a = arg;
    struct range r = part_range(a->n, rows_a_part(a->vocabulary), i);
    hr__vec_best()->log_sum_exp(a->lse + r.begin, a->logits + r.begin * a->vocabulary,
                                r.count, a->vocabulary);
    return HR_OK;
}

hr_status hr__host_cross_entropy(const void *args, hr_team *team)
{
    hr__cross_entropy_args a = *(const hr__cross_entropy_args *)args;
    double sum = 0;
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_cross_entropy, a, team,
                            {&a.logits, a.n * a.vocabulary, HR_READ});
    HR_TRY(hr__indices_check("cross_entropy", "targets", a.targets, a.n, a.vocabulary,
                             true));
    HR_TRY(hr__parts_run(team, hr__parts(a.n, rows_a_part(a.vocabulary)),
                         log_sum_exp_part, &a));
    for (int64_t i = 0; i < a.n; i++)
        if (a.targets[i] >= 0)
            sum += (double)a.lse[i] - (double)a.logits[i * a.vocabulary + a.targets[i]];
    a.loss[0] = (float)(sum * (double)a.scale);
    return HR_OK;
}

static hr_status cross_entropy_back_part(void *arg, int i)
{
    const hr__cross_entropy_args *a = arg;
    struct range r = part_range(a->n, rows_a_part(a->vocabulary), i);
    int64_t at = r.begin * a->vocabulary;
    hr__vec_best()->cross_entropy_back(a->dlogits + at, a->logits + at,
                                       a->lse + r.begin, a->targets + r.begin,
                                       a->loss[0] * a->scale, r.count, a->vocabulary);
    return HR_OK;
}

hr_status hr__host_cross_entropy_back(const void *args, hr_team *team)
{
    hr__cross_entropy_args a = *(const hr__cross_entropy_args *)args;
    int64_t count = a.n * a.vocabulary;
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_cross_entropy_back, a, team,
                            {&a.logits, count, HR_READ}, {&a.dlogits, count, HR_WRITE});
    return hr__parts_run(team, hr__parts(a.n, rows_a_part(a.vocabulary)),
                         cross_entropy_back_part, &a);
}

/* ---- the optimiser ---- */
static hr_status sum_squares_part(void *arg, int i)
{
    const hr__sum_squares_args *a = arg;
    struct range r = part_range(a->count, HR__FLAT_ITEMS, i);
    a->partial[i] = hr__vec_best()->sum_squares(a->x + r.begin, r.count);
    return HR_OK;
}

hr_status hr__host_sum_squares(const void *args, hr_team *team)
{
    hr__sum_squares_args a = *(const hr__sum_squares_args *)args;
    int64_t parts = hr__parts(a.count, HR__FLAT_ITEMS);
    HR_TRY(hr__parts_run(team, parts, sum_squares_part, &a));
    for (int64_t i = 0; i < parts; i++)
        *a.sum += a.partial[i];
    return HR_OK;
}

static hr_status adamw_part(void *arg, int i)
{
    const hr__adamw_args *a = arg;
    struct range r = part_range(a->count, HR__FLAT_ITEMS, i);
    hr__vec_best()->adamw(a->w + r.begin, a->g + r.begin, a->m + r.begin,
                          a->v + r.begin, r.count, &a->rate);
    return HR_OK;
}

hr_status hr__host_adamw(const void *args, hr_team *team)
{
    hr__adamw_args a = *(const hr__adamw_args *)args;
    return hr__parts_run(team, hr__parts(a.count, HR__FLAT_ITEMS), adamw_part, &a);
}
