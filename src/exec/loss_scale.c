/* The scale of losses: the one place that divides. */
#include "headrace/exec.h"

static double share(double part, double of)
{
    return of > 0 ? part / of : 0;
}

double hr_loss_scale(const hr_step_counts *c, int64_t tokens)
{
    if (c->mode == HR_LOSS_SUM)
        return 1;
    if (c->mode == HR_LOSS_MEAN_TOKEN)
        return share(1, (double)c->tokens);
    return tokens > 0 ? share(1, (double)tokens * (double)c->microbatches) : 0;
}

double hr_sequence_loss_scale(const hr_step_counts *c, int64_t sequences,
                              int64_t tokens)
{
    if (c->mode == HR_LOSS_SUM)
        return 1;
    if (c->mode == HR_LOSS_MEAN_TOKEN)
        return share((double)tokens, (double)c->tokens);
    return share(1, (double)c->microbatches * (double)sequences);
}
