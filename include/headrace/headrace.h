/* headrace/headrace.h: all of the library. Start reading at pipeline.h, the module that the rest
 * stands around. */
#ifndef HR_HEADRACE_H
#define HR_HEADRACE_H
#include "headrace/autograd.h"
#include "headrace/base.h"
#include "headrace/device.h"
#include "headrace/exec.h"
#include "headrace/group.h"
#include "headrace/group_mpi.h"
#include "headrace/group_nccl.h"
#include "headrace/moe.h"
#include "headrace/ops.h"
#include "headrace/pipeline.h"
#include "headrace/plan.h"
#include "headrace/schedule.h"
#include "headrace/tensor.h"
#include "headrace/trace.h"
#endif
