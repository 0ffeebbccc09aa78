/* train_auto.h: --schedule auto. The first steps run in a schedule that is made by a rule, and are timed
 * (train_trial.c); then rank 0 searches for a better order of the same work in no more memory, and all
 * ranks go on with what it found (train_auto.c).
 */
#ifndef HR_APP_TRAIN_AUTO_H
#define HR_APP_TRAIN_AUTO_H
#include "headrace/exec.h"

struct train_job;
struct train_rank;

enum { TRIALS = 3 /* steps; the first is not counted */ };

/* What came of it. Rank 0 writes. */
typedef struct train_choice {
    char *text;    /* the schedule with its costs; NULL: not chosen yet */
    double bubble; /* of it, simulated */
    double start_ms,
        found_ms;          /* simulated, of the start and of it; 0: of a former run */
    int64_t before, after; /* steps of this run, before the choice and behind it */
    double before_s, after_s; /* they took; of each the first is not counted */
} train_choice;

/* Over the ranks that hold a stage, or send: sums of microseconds. */
typedef struct cost_sum {
    float forward, input_grad, weight_grad, ranks;
} cost_sum;

typedef struct trial_costs {
    cost_sum *stage; /* [stages], and behind them one of transfers, in `forward` */
    float discount;  /* percent that a pair saves, on the rank where it is most */
} trial_costs;

typedef struct train_trial train_trial;

/* Whether there is something to choose, and steps to choose it in. */
bool hr_app_trial_wanted(const struct train_job *job);
/* Stands before the functions of this rank's stages, which it replaces. ERR_NOMEM. */
hr_status hr_app_trial_open(struct train_rank *r, hr_exec_stage *fns);
void hr_app_trial_close(struct train_rank *r);
/* Steps are timed. */
bool hr_app_trial_runs(const struct train_rank *r);
/* A step is through, and its timeline there. True: it was the last to be timed. */
bool hr_app_trial_step(struct train_rank *r);
/* Alike on all ranks; c->stage is the caller's, also on failure. Collective. Blocks. */
hr_status hr_app_trial_costs(struct train_rank *r, trial_costs *c);

/* A step of `seconds` is through: perhaps choose, and go on with another program. Collective. */
hr_status hr_app_auto_step(struct train_rank *r, double seconds, bool *chose);
/* The schedule that the run goes on with to schedule.txt. */
hr_status hr_app_auto_write(const struct train_job *job);
/* What was gained, on standard output. */
void hr_app_auto_say(const struct train_job *job);

#endif
