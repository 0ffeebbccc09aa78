/* Two stages made of plans, on one rank and without an executor: a stage is a few functions, called here
 * in the order of a schedule. */
#ifndef STAGE_DRIVE_H
#define STAGE_DRIVE_H
#include "support/holds.h"
#include "unit/exec/stage_rig.h"

enum { DRIVE_STAGES = 2 };

typedef struct drive_how {
    bool split, pairs, forward_only;
    hr_plan_stage_opts stage;
} drive_how;

typedef struct drive {
    stage_rig *rig;
    const drive_how *how;
    hr_tensor *mid[TOY_MICROBATCHES]; /* from the first stage to the second */
    hr_tensor *mid_grad[TOY_MICROBATCHES];
} drive;

hr_status drive_open(stage_rig *r, toy_model *m, const hr_plan_stage_opts *how);

hr_exec_at drive_at(const drive *d, int stage, int m, bool paired);
const hr_exec_stage *drive_fns(const drive *d, int stage);
hr_status drive_forward(drive *d, int stage, int m);
hr_status drive_backward(drive *d, int stage, int m);
void drive_drop(drive *d);

/* All microbatches from zeroed gradients. */
hr_status drive_step(stage_rig *r, const drive_how *h);

#endif
