/* The handy model: stage s computes y = w_s * x on its own kernels, w = 2, 3, 5, 7 and then 1, -1, 2;
 * microbatch m has x = m + 1 in each of its elements; the loss is the sum of y. Integers, so that
 * every sum is exact in any order. */
#ifndef HANDY_H
#define HANDY_H
#include "headrace/exec.h"
#include "support/holds.h"

enum { HANDY_STAGES = 32, HANDY_MICROBATCHES = 64, HANDY_LOG = 1024 };

/* How a stage goes wrong in an action. */
typedef enum handy_fault {
    HANDY_FAILS,  /* its function fails */
    HANDY_HALF,   /* it does when it has put something out */
    HANDY_KERNEL, /* what it launched does */
    HANDY_SHAPE,  /* it puts out a tensor that is too long */
    HANDY_STUCK   /* it does not come back before the job has failed */
} handy_fault;

/* Of one stage on one rank. */
typedef struct handy_stage {
    struct handy *h;
    int stage;
    float *dw; /* device */
    hr_tensor *x[HANDY_MICROBATCHES], *dy[HANDY_MICROBATCHES];
    float scale[HANDY_MICROBATCHES]; /* of the loss, on the last */
    int wgrads[HANDY_MICROBATCHES], reductions;
    bool reduced;
} handy_stage;

/* A rank. What is to be chosen is set between handy_init() and handy_load(). */
typedef struct handy {
    hr_group *world, *pp;
    int dp, lines, line; /* pipelines: with different data; all; and this rank's */
    bool vary;           /* lengths, as `length` says; else `length[0]` */
    bool no_split;       /* stages that cannot split their backward */
    bool pairs;          /* stages that run pairs */
    bool free_early;     /* what they put out is dropped when they are next called */
    int length[HANDY_MICROBATCHES];
    int64_t tokens[HANDY_MICROBATCHES];
    /* Go wrong in this kind of action, on this stage and microbatch; HR_ACTION_RECV_B: never. */
    hr_action_kind fail_kind;
    int fail_stage, fail_microbatch;
    handy_fault fault;

    hr_exec *e;
    int stages; /* of the model that `e` was made for */
    int n_mine, mine[HANDY_STAGES];
    handy_stage stage[HANDY_STAGES]; /* by number along the model */
    float *dx;                       /* device: [HANDY_MICROBATCHES] */
    int live, peak; /* activations: from forward to the last part of the backward */
    int paired;     /* slots run as pairs */
    hr_tensor *put_out;
    hr_action log[HANDY_LOG]; /* in which order this rank's functions were called */
    int n_log;
    const void *place[512]; /* where tensors stood in this step, each address once */
    int places;
} handy;

/* `tp` pipelines with the same data, beside which are others, `dp` in all; side by side along the
 * ranks, as in "tp-cp-ep-dp-pp". */
hr_status handy_init(handy *h, hr_group *world, int tp, int dp);
void handy_fini(handy *h);

/* The executor for where `s` has its stages, if it is not there yet; and the program. */
hr_status handy_load(handy *h, const hr_schedule *s, hr_program **out);
/* Generate and load: NULL `out` for what the generator or the executor refuses. */
hr_status handy_generate(handy *h, const char *name, int chunks, int microbatches,
                         hr_schedule **s, hr_program **out);
/* One step from zeroed gradients, and the comparison of this pipeline's with what must come out. */
hr_status handy_step(handy *h, const hr_schedule *s, const hr_program *p,
                     hr_loss_mode mode);
/* The parts of it. */
hr_status handy_zero(handy *h);
hr_status handy_check(handy *h, const hr_schedule *s, hr_loss_mode mode);
/* Gradients of the weights, summed over `g`. Blocks. */
hr_status handy_sums(const handy *h, hr_group *g, float dw[HANDY_STAGES]);
float handy_weight(int stage);

/* Between handy_stage.c and handy.c. */
hr_exec_stage handy_functions(handy *h, int stage);
void handy_drop(void *stage);
void handy_give_up(handy *h); /* what was put out is on its way */
int handy_length(const handy *h, int m);

#endif
