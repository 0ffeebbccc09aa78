/* train.h: what the files of the trainer share.
 *
 *     trainer.c       the run: data, job, pictures, sample
 *     train_rank.c    one rank: streams, groups, model, and the loop over steps
 *     train_stage.c   what a stage does with a microbatch, for the executor
 *     train_step.c    one step: forward and backward, norm, update
 *     train_grads.c   gradients over ranks
 *     train_tally.c   sums over ranks for the report
 *     train_eval.c    validation loss
 *     train_save.c    checkpoints, both ways, by what state_pieces.c says
 *     train_profile.c what layers cost, for `headrace plan`
 *     train_auto.c    --schedule auto, with train_trial.c
 *     train_process.c a process that is one rank of several; before it trains train_compare.c, and at
 *                     the end train_lanes.c
 *     train_report.c  metrics, progress, loss curve (rank 0)
 */
#ifndef HR_APP_TRAIN_H
#define HR_APP_TRAIN_H
#include "app_try.h"
#include "checkpoint.h"
#include "data.h"
#include "headrace/exec.h"
#include "model.h"
#include "moments.h"
#include "rank_groups.h"
#include "run_pipeline.h"
#include "train_auto.h"

typedef struct train_report train_report;

/* What one step came to, alike on all ranks. */
typedef struct train_result {
    double loss, aux_loss, grad_norm; /* nats a token; as it weighs; before clipping */
    double mtp_loss; /* nats a token that has one after the next; NaN: none */
    double lr;
    double
        bubble; /* share of the step in which a rank does not compute, mean; NaN: one stage */
    bool skipped, stop;
    bool chose; /* what the next step's schedule is; see train_auto.h */
    /* Of rank 0: seconds, share of communication hidden (NaN: none), device memory, validation loss (NaN:
     * not asked for). */
    double seconds, hidden, val_loss;
    hr_mem_stats memory;
} train_result;

/* One a run, or in each process one; ranks only read it, but for the report, which is rank 0's. */
typedef struct train_job {
    const train_options *opts;
    bool first;      /* rank 0 is in this process, which prints and writes */
    char manner[96]; /* how the ranks exist, for people: "as threads" */
    const pipeline *pipeline;
    data_set *data;
    hr_timeline *timeline; /* lanes of all ranks of this process */
    checkpoint *resumed;   /* NULL: from the start */
    int64_t first_step;    /* steps done before this run */
    int64_t first_updates; /* likewise, of the parameters */
    int64_t begin_ns;
    train_report *report;
    /* Of the end; rank 0 writes. */
    char transfers[96]; /* what carries them between GPUs; "": nothing of that kind */
    int64_t steps_done;
    train_result last;
    train_choice choice;
} train_job;

enum { TALLY_LOSS, TALLY_AUX, TALLY_MTP, TALLY_STOP, TALLY_BUSY, TALLIES };

typedef struct train_rank train_rank;

/* What a stage's functions get. */
typedef struct train_stage {
    train_rank *rank;
    hr_app_stage *stage;
    hr_plan_stage *fns;
} train_stage;

/* This rank's gradients, as hr_grads wants them: of experts one each. */
typedef struct train_grads {
    hr_grads *over_ranks;
    hr_tensor **own; /* [n] this rank's range of each; NULL: nothing of it */
    int n;
    hr_tensor *squares; /* doubles, [n] */
} train_grads;

struct train_rank {
    train_job *job;
    rank_groups groups;
    hr_stream *compute, *counts_stream;
    hr_stream *comm, *grads_stream; /* compute where nothing overlaps */
    hr_event *fence;
    hr_app_model *model;
    train_stage *stages;
    hr_exec *exec;
    hr_program *training, *evaluation;
    train_trial *trial; /* NULL: nothing is to be chosen */
    train_grads grads;
    hr_app_moments moments;
    int32_t *batch;   /* host memory: ids and targets of each microbatch, [2][N] each */
    hr_tensor *loss;  /* f32 [1]: sum over the microbatches so far; NULL: none yet */
    hr_tensor *tally; /* f32 [TALLIES], summed over ranks */
    int64_t tokens_per_microbatch;
    int64_t updates; /* of the parameters so far: steps that were not skipped */
};

hr_status hr_app_rank_main(hr_group *base, void *train_job_);
hr_status hr_app_rank_step(train_rank *r, int64_t step, train_result *out);
hr_status hr_app_rank_evaluate(train_rank *r, double *nats);
/* Work issued to `to` from now on comes after what `from` has now. */
hr_status hr_app_rank_fence(train_rank *r, hr_stream *from, hr_stream *to);
/* Fill the batches: sequence s of microbatch m of this rank comes from `fill`. Nothing that was issued
 * may still read the former ones. */
void hr_app_rank_load(train_rank *r, int microbatches,
                      void (*fill)(const train_rank *r, int64_t at, int64_t sequence,
                                   int32_t *ids, int32_t *targets),
                      int64_t at);
/* One pass over the loaded microbatches. */
hr_status hr_app_rank_pass(train_rank *r, const hr_program *program, hr_loss_mode mode,
                           hr_step_counts *counts);

/* The stages of this rank, and the executor over them. Collective. */
hr_status hr_app_stages_open(train_rank *r);
void hr_app_stages_close(train_rank *r);
/* Stage `i` of this rank once more, everything on the compute stream; hr_plan_stage_destroy() it. */
hr_status hr_app_stage_open_serial(train_rank *r, int i, hr_plan_stage **out);
/* Measure, and write to --profile. Leaves something in the gradients. Collective. Blocks. */
hr_status hr_app_rank_profile(train_rank *r);

/* The gradients over ranks, and the moments of what of them is this rank's. Collective. */
hr_status hr_app_grads_open(train_rank *r);
void hr_app_grads_close(train_grads *g);
/* Of all ranks; the gradients are reduced. Blocks. */
hr_status hr_app_grads_norm(train_rank *r, double *out);

/* The tally over all ranks: the pass's losses, and what was in it. Blocks. */
hr_status hr_app_rank_tally(train_rank *r, float host[TALLIES]);
/* Mean over ranks of the share of `seconds`, from the recorded timeline. Blocks. */
hr_status hr_app_rank_bubble(train_rank *r, double seconds, double *out);

hr_status hr_app_rank_save(train_rank *r, int64_t step); /* collective */
hr_status hr_app_rank_resume(train_rank *r);

hr_status hr_app_report_create(const train_job *job, train_report **out);
hr_status hr_app_report_step(train_report *p, int64_t step, const train_result *res);
hr_status hr_app_report_finish(train_report *p); /* loss.svg */
void hr_app_report_destroy(train_report *p);

int64_t hr_app_train_tokens(const train_options *o); /* of a step, over all ranks */

#endif
