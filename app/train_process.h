/* train_process.h: `headrace train` in a process that is one rank of several: mpirun -n 4 headrace train.
 */
#ifndef HR_APP_TRAIN_PROCESS_H
#define HR_APP_TRAIN_PROCESS_H
#include "options.h"

/* Runs this rank and returns what the process exits with. `usage`: what reading the options came to; where
 * one rank's are wrong, all end with its sentence. One rank alone says what went wrong. */
int hr_app_train_process(const train_options *o, hr_status usage);

#endif
