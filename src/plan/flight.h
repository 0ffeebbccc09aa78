/* One microbatch between its forward and its backward: its plan and, where the model ends, its loss.
 * For src/plan and src/exec. */
#ifndef HR_PLAN_FLIGHT_H
#define HR_PLAN_FLIGHT_H
#include "headrace/plan.h"

typedef struct hr__flight {
    int microbatch;
    hr_schedule_plan *plan;
    hr_node *loss_node; /* holds the plan's output, detached; NULL: `output` does */
    hr_tensor *output;
    hr_tensor *loss;
    /* The caller's. The loss from the output, one reference: the flight's. */
    hr_status (*make_loss)(struct hr__flight *fl, hr_tensor *output, hr_tensor **loss);
} hr__flight;

/* Give up all that it holds; what the caller put in stays. Again is harmless. */
void hr__flight_end(hr__flight *fl);

/* ERR_CALLBACK "no_plan": the caller's function put none in. */
hr_status hr__flight_check_plan(const hr__flight *fl);

/* What comes to a chunk from elsewhere, as a leaf of its graph: an alias with a claim of its own. Its
 * gradient is for reading. */
hr_status hr__flight_receive(hr_tensor *in, bool backward, hr_tensor **leaf);

/* Make the loss from the plan's output in a node of its own on the compute stream, ordered by the
 * plan's event: for plans that run beside others. */
hr_status hr__flight_loss_in_node(hr__flight *fl, hr_tensor *output);
/* On the one stream, where no event is needed; cut from the plan's graph unless nothing goes back. */
hr_status hr__flight_loss_in_place(hr__flight *fl, hr_tensor *output,
                                   bool forward_only);

/* Outside of any node. *grad is borrowed from the detached output. */
hr_status hr__flight_loss_backward(hr__flight *fl, hr_tensor **grad);
/* The output's bytes are not needed once its backward is issued. */
hr_status hr__flight_free_output(hr__flight *fl);

#endif
