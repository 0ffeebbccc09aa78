/* train_grads.c: this rank's gradients as the library sums them over ranks, and their norm. */
#include "train.h"
#include <stdlib.h>

/* How many entries a parameter makes: experts are parameters of their own. */
static int parts_of(const hr_app_param *q)
{
    return q->region == EXPERT ? (int)q->shape[0] : 1;
}

static hr_status add(train_rank *r, const hr_app_param *q, hr_grad_desc *list)
{
    train_grads *g = &r->grads;
    const rank_groups *groups = &r->groups;
    const hr_app_entry *e = &r->model->catalog->list[q->entry];
    hr_tensor *whole = hr_tensor_grad(q->w);
    bool expert = q->region == EXPERT;
    for (int k = 0; k < parts_of(q); k++) {
        if (expert)
            APP_TRY(hr_tensor_rows(whole, k, k + 1, &g->part[g->n]));
        else
            g->part[g->n] = hr_tensor_retain(whole);
        int64_t count = hr_tensor_count(g->part[g->n]);
        list[g->n] =
            (hr_grad_desc){.grad = hr_tensor_f32(g->part[g->n]),
                           .count = count,
                           .stage = groups->first_stage[q->entry],
                           .id = e->id + (expert ? (int)(q->first / count) + k : 0),
                           .copies = groups->copies_of[q->entry],
                           .over = expert ? groups->expert_dp : groups->dp};
        g->n++;
    }
    return HR_OK;
}

static hr_status fill(train_rank *r, hr_grad_desc *list)
{
    train_grads *g = &r->grads;
    const hr_app_params *p = &r->model->params;
    for (int i = 0; i < p->n; i++)
        APP_TRY(add(r, &p->list[i], list));
    APP_TRY(hr_tensor_zeros(HR_I64, 1, (int64_t[]){g->n}, &g->squares));
    return hr_grads_create(&(hr_grads_opts){HR_INIT(hr_grads_opts), .grads = list,
                                            .n = g->n, .ids = r->model->catalog->ids,
                                            .world = r->groups.norm,
                                            .stream = r->grads_stream},
                           &g->over_ranks);
}

hr_status hr_app_grads_open(train_rank *r)
{
    const hr_app_params *p = &r->model->params;
    size_t n = 0;
    for (int i = 0; i < p->n; i++)
        n += (size_t)parts_of(&p->list[i]);
    hr_grad_desc *list = calloc(n + 1, sizeof *list);
    r->grads.part = calloc(n + 1, sizeof(hr_tensor *));
    hr_status st = list && r->grads.part
                       ? fill(r, list)
                       : hr_fail(HR_ERR_NOMEM, NULL, "no memory to list gradients");
    free(list);
    return st;
}

void hr_app_grads_close(train_grads *g)
{
    hr_grads_destroy(g->over_ranks);
    for (int i = 0; i < g->n; i++)
        hr_tensor_release(g->part[i]);
    hr_tensor_release(g->squares);
    free(g->part);
}

hr_status hr_app_grads_norm(train_rank *r, double *out)
{
    train_grads *g = &r->grads;
    double *squares = hr_tensor_data(g->squares);
    APP_TRY(hr_fill(r->compute, squares, 0, hr_tensor_bytes(g->squares)));
    for (int i = 0; i < g->n; i++)
        APP_TRY(hr_op_sum_squares(g->part[i], &squares[i]));
    return hr_grads_norm(g->over_ranks, squares, out);
}
