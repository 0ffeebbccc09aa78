/* train_eval.c: the validation loss: fixed windows of text, spread over the ranks. */
#include "train.h"

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
    float host[TALLIES];
    hr_step_counts counts;
    hr_app_rank_load(r, r->job->opts->eval_batches, validation_window, 0);
    APP_TRY(hr_app_rank_pass(r, r->evaluation, HR_LOSS_MEAN_TOKEN, &counts));
    APP_TRY(hr_app_rank_tally(r, host));
    *nats = host[TALLY_LOSS];
    return HR_OK;
}
