/* train_tally.c: small sums over all ranks, in their order. A rank without a loss of its own adds zero. */
#include "train.h"
#include <math.h>

static hr_status sum(train_rank *r, float host[TALLIES])
{
    float *t = hr_tensor_f32(r->tally);
    APP_TRY(hr_app_rank_fence(r, r->compute, r->comm));
    APP_TRY(hr_all_reduce(r->groups.control, t, t, TALLIES, HR_F32, HR_SUM, r->comm));
    APP_TRY(hr_app_rank_fence(r, r->comm, r->compute));
    return hr_tensor_read(r->tally, host, hr_tensor_bytes(r->tally));
}

hr_status hr_app_rank_tally(train_rank *r, float host[TALLIES])
{
    float *t = hr_tensor_f32(r->tally);
    APP_TRY(hr_copy(r->compute, &t[TALLY_LOSS], hr_tensor_data(r->loss), sizeof *t));
    APP_TRY(hr_copy(r->compute, &t[TALLY_AUX], hr_tensor_data(r->model->aux_sum),
                    sizeof *t));
    if (r->model->mtp.sum)
        APP_TRY(hr_copy(r->compute, &t[TALLY_MTP], hr_tensor_data(r->model->mtp.sum),
                        sizeof *t));
    return sum(r, host);
}

hr_status hr_app_rank_bubble(train_rank *r, double seconds, double *out)
{
    hr_overlap v;
    float host[TALLIES] = {0};
    *out = NAN;
    if (r->job->pipeline->stages == 1)
        return HR_OK;
    APP_TRY(
        hr_timeline_overlap(r->job->timeline, hr_device_rank(hr_device_current()), &v));
    host[TALLY_BUSY] = (float)((double)v.compute_ns * 1e-9 / seconds);
    APP_TRY(hr_tensor_write(r->tally, host, sizeof host));
    APP_TRY(sum(r, host));
    *out = 1 - (double)host[TALLY_BUSY] / hr_group_size(r->groups.world);
    return HR_OK;
}
