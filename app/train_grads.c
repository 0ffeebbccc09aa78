/* train_grads.c: this rank's gradients as the library sums them over ranks, their norm, and which moments
 * are kept here. */
#include "train.h"
#include <stdlib.h>

/* How many entries a parameter makes: experts are parameters of their own. */
static int parts_of(const hr_app_param *q)
{
    return q->region == EXPERT ? (int)q->shape[0] : 1;
}

/* Part `k` of a parameter. */
static hr_grad_desc describe(const train_rank *r, const hr_app_param *q, int k)
{
    const rank_groups *groups = &r->groups;
    bool expert = q->region == EXPERT;
    int64_t count = hr_app_param_count(q) / parts_of(q);
    int id = r->model->catalog->list[q->entry].id;
    return (hr_grad_desc){.grad = hr_tensor_f32(hr_tensor_grad(q->w)) + k * count,
                          .weight = hr_tensor_f32(r->model->params.w[q->region]) +
                                    q->offset + k * count,
                          .count = count,
                          .stage = groups->first_stage[q->entry],
                          .id = id + (expert ? (int)(q->first / count) + k : 0),
                          .copies = groups->copies_of[q->entry],
                          .over = expert ? groups->expert_dp : groups->dp};
}

static hr_status create(train_rank *r, hr_grad_desc *list)
{
    const hr_app_params *p = &r->model->params;
    int n = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < parts_of(&p->list[i]); k++)
            list[n++] = describe(r, &p->list[i], k);
    return hr_grads_create(&(hr_grads_opts){HR_INIT(hr_grads_opts), .grads = list,
                                            .n = n, .ids = r->model->catalog->ids,
                                            .world = r->groups.norm,
                                            .stream = r->grads_stream,
                                            .shard = r->job->opts->shard_optimizer},
                           &r->grads.over_ranks);
}

/* Of a parameter: the ranges of its gradient that this rank squares, and what it has the moments of. */
static hr_status take_ranges(train_rank *r, const hr_app_param *q)
{
    train_grads *g = &r->grads;
    bool shard = r->job->opts->shard_optimizer;
    hr_tensor *whole = hr_tensor_grad(q->w);
    int64_t count = hr_app_param_count(q) / parts_of(q);
    for (int k = 0; k < parts_of(q); k++, g->n++) {
        hr_grad_range own = hr_grads_range(g->over_ranks, g->n);
        int64_t first = q->offset + k * count + own.begin;
        if (own.count > 0)
            APP_TRY(hr_app_flat_part(whole, first, own.count, &g->own[g->n]));
        hr_grad_range kept = shard ? own : (hr_grad_range){0, count};
        APP_TRY(
            hr_app_moments_keep(&r->moments, q, k * count + kept.begin, kept.count));
    }
    return HR_OK;
}

static hr_status fill(train_rank *r, hr_grad_desc *list, size_t n)
{
    const hr_app_params *p = &r->model->params;
    APP_TRY(hr_tensor_zeros(HR_I64, 1, (int64_t[]){(int64_t)n}, &r->grads.squares));
    APP_TRY(create(r, list));
    for (int i = 0; i < p->n; i++)
        APP_TRY(take_ranges(r, &p->list[i]));
    return hr_app_moments_build(&r->moments, p);
}

hr_status hr_app_grads_open(train_rank *r)
{
    const hr_app_params *p = &r->model->params;
    size_t n = 0;
    for (int i = 0; i < p->n; i++)
        n += (size_t)parts_of(&p->list[i]);
    hr_grad_desc *list = calloc(n + 1, sizeof *list);
    r->grads.own = calloc(n + 1, sizeof(hr_tensor *));
    hr_status st = list && r->grads.own
                       ? fill(r, list, n)
                       : hr_fail(HR_ERR_NOMEM, NULL, "no memory to list gradients");
    free(list);
    return st;
}

void hr_app_grads_close(train_grads *g)
{
    hr_grads_destroy(g->over_ranks);
    for (int i = 0; i < g->n; i++)
        hr_tensor_release(g->own[i]);
    hr_tensor_release(g->squares);
    free(g->own);
}

hr_status hr_app_grads_norm(train_rank *r, double *out)
{
    train_grads *g = &r->grads;
    double *squares = hr_tensor_data(g->squares);
    APP_TRY(hr_fill(r->compute, squares, 0, hr_tensor_bytes(g->squares)));
    for (int i = 0; i < g->n; i++)
        if (g->own[i])
            APP_TRY(hr_op_sum_squares(g->own[i], &squares[i]));
    return hr_grads_norm(g->over_ranks, squares, out);
}
