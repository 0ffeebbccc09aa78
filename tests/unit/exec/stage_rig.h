/* The toy model of tests/unit/plan cut into plan stages. */
#ifndef STAGE_RIG_H
#define STAGE_RIG_H
#include "headrace/exec.h"
#include "unit/plan/toy_model.h"

enum { RIG_STAGES = 4 }; /* at most */

typedef struct stage_rig stage_rig;
typedef struct rig_side {
    stage_rig *rig;
    hr_chunk_desc chunk;
    hr_plan_stage *stage;
    const hr_exec_stage *fns;
    int fail_at; /* plan number n from now fails; -1: none */
} rig_side;

struct stage_rig {
    toy_model *m;
    int n;
    rig_side side[RIG_STAGES];
    hr_tensor *loss[TOY_MICROBATCHES];
};

/* The `n` stages listed, of `of` that have about as many layers each, or none. `how`: serial,
 * delay_wgrad and recompute count. */
hr_status stage_rig_open(stage_rig *r, toy_model *m, const hr_plan_stage_opts *how,
                         const int *stages, int n, int of);
void stage_rig_close(stage_rig *r);

/* Zero the gradients; and read them and the losses, waiting for the end. */
hr_status stage_rig_begin(stage_rig *r);
hr_status stage_rig_read(stage_rig *r, toy_result *out);

#endif
