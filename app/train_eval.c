/* train_eval.c: the validation loss: fixed windows of text, spread over the ranks. */
#include "train.h"
#include <stdlib.h>

static int64_t windows(const train_options *o)
{
    return (int64_t)o->eval_batches * o->micro_batch_size * o->dp;
}

static void validation_window(const train_rank *r, int64_t at, int64_t sequence,
                              int32_t *ids, int32_t *targets)
{
    const train_options *o = r->job->opts;
    hr_app_data_window(r->job->data, sequence, windows(o), o->model.seq, ids, targets);
}

hr_status hr_app_rank_evaluate(train_rank *r, double *nats)
{
    const train_options *o = r->job->opts;
    int n = o->eval_batches;
    float scale = r->model->loss_scale;
    APP_TRY(hr_app_rank_load(r, n, validation_window, 0));
    APP_TRY(
        hr_fill(r->compute, hr_tensor_data(r->tally), 0, hr_tensor_bytes(r->tally)));
    r->model->loss_scale = (float)(1 / ((double)windows(o) * o->model.seq));
    hr_status st = hr_app_rank_pass(r, n, true);
    r->model->loss_scale = scale;
    APP_TRY(st);
    APP_TRY(hr_app_rank_fence(r, r->compute, r->comm));
    void *t = hr_tensor_data(r->tally);
    APP_TRY(hr_all_reduce(r->grads, t, t, hr_tensor_count(r->tally), HR_F32, HR_SUM,
                          r->comm));
    APP_TRY(hr_app_rank_fence(r, r->comm, r->compute));
    float *host = calloc(1, hr_tensor_bytes(r->tally));
    if (!host)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the losses of %d batches", n);
    st = hr_tensor_read(r->tally, host, hr_tensor_bytes(r->tally));
    *nats = 0;
    for (int i = 0; i < n; i++)
        *nats += host[i];
    free(host);
    return st;
}
