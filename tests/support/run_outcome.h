/* run_outcome.h: what one training step leaves, and how far two of them are apart. Options are a line as
 * on the command line; failures come back as a status with a sentence, for tests and programs alike.
 *
 *     run_outcome got = {0};
 *     HR_TRY(run_outcome_options(&o, "--pp 2 --vp 2"));
 *     HR_TRY(run_outcome_steps(&o, &got));
 *     HR_TRY(run_outcome_near(&got, run_outcome_on_one_rank(&o)));
 */
#ifndef HR_TEST_RUN_OUTCOME_H
#define HR_TEST_RUN_OUTCOME_H
#include "support/train_case.h"
#include "support/whole_state.h"

typedef struct run_outcome {
    whole_state state; /* in the checkpoint */
    double loss, aux_loss, mtp_loss, grad_norm;
} run_outcome;

/* Options of one step of a tiny model, checked; 8 sequences of one each unless the line says otherwise. */
hr_status run_outcome_read(train_options *o, const char *line);
/* The same, with a folder for the run, also after an error: train_case_fini(). */
hr_status run_outcome_options(train_options *o, const char *line);

/* Runs, and reads what is in the folder then. */
hr_status run_outcome_steps(const train_options *o, run_outcome *out);
void run_outcome_fini(run_outcome *r);

/* The run with the same model and sequences on one rank, one after the other: done once and kept until
 * run_outcome_forget(). NULL: it failed, see hr_last_error(). */
const run_outcome *run_outcome_on_one_rank(const train_options *like);
void run_outcome_forget(void);

bool run_outcome_same(const run_outcome *a, const run_outcome *b); /* to the bit */

/* Each gradient, the losses and the norm within 1e-5, parameters roughly. `worst` may be NULL. ERR_STATE
 * with what is apart, and by how much. */
hr_status run_outcome_near(const run_outcome *got, const run_outcome *want,
                           double *worst);

#endif
