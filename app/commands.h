/* The sub-commands of `headrace`, and the two calls through which they reach the trainer. */
#ifndef HR_APP_COMMANDS_H
#define HR_APP_COMMANDS_H
#include "headrace/group.h"
#include "options.h"

/* What the process returns to its caller. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* `argv` without the program and the sub-command; they return the exit status. */
int hr_app_cmd_train(int argc, char *const *argv);
int hr_app_cmd_sample(int argc, char *const *argv);
int hr_app_cmd_plan(int argc, char *const *argv);
int hr_app_cmd_info(int argc, char *const *argv);

/* The exit status after reading options (`usage`) or after work that ended with `st`; the last line on
 * standard error says what went wrong and where. */
int hr_app_usage(const char *command, hr_status st);
int hr_app_finish(const char *command, hr_status st);

/* --dry-run: reads and checks what training would, says what would run, and writes nothing. */
hr_status hr_app_dry_run(const train_options *o);

/* In trainer.c and sample.c. An interrupted run returns ERR_ABORTED, or what the interruption made
 * fail: hr_app_finish() asks hr_app_interrupted(). */
hr_status hr_app_train(const train_options *o);
/* The same for this rank of `world`, whose ranks are processes. Collective. */
hr_status hr_app_train_rank(const train_options *o, hr_group *world);
/* Of that, what comes before anything is written: all ranks have been told the same. Collective. */
hr_status hr_app_train_meet(const train_options *o, hr_group *world);
/* Steps, metrics and checkpoints alone: no pictures and no sample. */
hr_status hr_app_train_steps(const train_options *o);
hr_status hr_app_sample(const sample_options *o);

#endif
