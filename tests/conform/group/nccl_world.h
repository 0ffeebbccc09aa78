/* nccl_world.h: a job whose ranks are threads, each with a GPU, and whose groups are over NCCL. */
#ifndef HR_TEST_NCCL_WORLD_H
#define HR_TEST_NCCL_WORLD_H
#include "headrace/group_nccl.h"
#include <stdio.h>

typedef struct nccl_world_run {
    hr_rank_fn fn;
    void *arg;
    double timeout_s;
} nccl_world_run;

static inline hr_status nccl_world_rank(hr_group *base, void *run_)
{
    const nccl_world_run *run = run_;
    hr_group *world;
    char said[768];
    hr_status st = hr_group_over_nccl(
        base, &(hr_nccl_opts){HR_INIT(hr_nccl_opts), .timeout_s = run->timeout_s},
        &world);
    if (st < 0)
        return st;
    st = run->fn(world, run->arg);
    snprintf(said, sizeof said, "%s", hr_last_error());
    const char *reason = hr_last_reason();
    if (st < 0) /* peers must not wait for this rank while it closes */
        hr_group_abort(world, st);
    hr_group_release(world);
    return st < 0 ? hr_fail(st, reason, "%s", said) : HR_OK;
}

/* As hr_local_run(). */
static inline hr_status nccl_world(int n, const hr_local_opts *o, hr_rank_fn fn,
                                   void *arg)
{
    nccl_world_run run = {fn, arg, o->timeout_s};
    return hr_local_run(n, o, nccl_world_rank, &run);
}

#endif
