/* grads_rig.h: ranks with some memory for gradients and weights, for the tests of hr_grads. All but
 * grads_rig_run() is for the threads of ranks. */
#ifndef TEST_GRADS_RIG_H
#define TEST_GRADS_RIG_H
#include "headrace/exec.h"

enum { GRADS_ROOM = 256 };

/* One rank: gradients, weights and squares (all zeros), and the stream of reductions. */
typedef struct grads_rig {
    hr_group *world;
    hr_stream *stream;
    hr_tensor *grad, *weight; /* f32 [GRADS_ROOM] */
    hr_tensor *squares;       /* doubles [GRADS_ROOM] */
    hr_grads *g;
} grads_rig;

hr_status grads_rig_open(grads_rig *r, hr_group *world);
hr_status grads_rig_close(grads_rig *r); /* blocks */
/* The first `n` values; zeros behind them. */
hr_status grads_rig_put(hr_tensor *t, const float *values, int n);
hr_status grads_rig_make(grads_rig *r, const hr_grad_desc *d, int n, int ids);
/* With options: the world and the stream are the rig's. */
hr_status grads_rig_make_as(grads_rig *r, hr_grads_opts o);
/* *mine is left alone on ranks that are not in it. Collective over the world. */
hr_status grads_rig_group(hr_group *world, const int *ranks, int n, hr_group **mine);

/* fn on `ranks` ranks, over one of the local engines (NULL: the usual), with the stream checker; fails the
 * test with what the first that failed has to say. */
void grads_rig_run(int ranks, const char *engine, hr_rank_fn fn, void *arg);

#endif
