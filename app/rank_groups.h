/* rank_groups.h: the groups that one rank of a run is in, in Megatron's order of ranks (tp-cp-ep-dp-pp, of
 * which ep, dp and pp are used).
 */
#ifndef HR_APP_RANK_GROUPS_H
#define HR_APP_RANK_GROUPS_H
#include "catalog.h"
#include "headrace/group.h"
#include "run_pipeline.h"

typedef struct rank_groups {
    hr_group *world; /* borrowed */
    hr_group *control,
        *norm; /* all ranks: sums and checkpoints; the norm of gradients */
    hr_group *pp;
    hr_group *dp, *expert_dp;  /* gradients of what every rank has, and of experts */
    hr_group *tokens, *counts; /* those that share the experts of a stage */
    /* Ranks of the pipeline that hold the same parameter, by its entry in the catalog; borrowed from
     * `copies`. NULL: only one does, or this one does not. */
    hr_group **copies_of;
    hr_group **copies;
    int n_copies;
    /* By entry: the first stage along the model, and the first rank of a pipeline, that hold it. */
    int *first_stage, *owner;
} rank_groups;

/* A world over NCCL where ranks reach each other's memory only so, else `base` itself; for hr_group_release(). Collective
 * over `base`. */
hr_status hr_app_groups_world(hr_group *base, double timeout_s, hr_group **out);
/* Collective over `world`. Errors: those of hr_group_create(). */
hr_status hr_app_groups_open(rank_groups *g, hr_group *world, const train_options *o);
/* The groups of what several stages hold. Collective over the pipeline; after the above. */
hr_status hr_app_groups_open_copies(rank_groups *g, const hr_app_catalog *c,
                                    const pipeline *p);
void hr_app_groups_close(rank_groups *g);

/* The rank in the world that has part `part` of `parts` of an entry: experts have as many as ep. */
int hr_app_groups_source(const rank_groups *g, const train_options *o, int entry,
                         int part);

#endif
