/* One whole step of a schedule on threads, a rank each, over stages that compute nothing and write down
 * what is asked of them. */
#ifndef CASE_PIPELINE_STEP_H
#define CASE_PIPELINE_STEP_H
#include "headrace/schedule.h"

#include <jansson.h>

enum { PIPELINE_RANKS = 16, PIPELINE_STAGES = 64 };

/* What goes between ranks, by what it carries and the end that it is seen from. */
typedef enum transfer { SEND_F, SEND_B, RECV_F, RECV_B, TRANSFERS } transfer;

/* All lists are of the caller, in order. */
typedef struct pipeline_log {
    json_t *compute
        [PIPELINE_RANKS]; /* ["F",c,m], ["B",c,m]; with pairs ["run",..,..], ["W",c,m] */
    json_t *moved[PIPELINE_RANKS][TRANSFERS]; /* payloads: "a0.1.2", "g0.1.2" */
    json_t *losses;                           /* microbatches whose loss was made */
} pipeline_log;

void pipeline_log_init(pipeline_log *log);
void pipeline_log_fini(pipeline_log *log);

/* Run `s`, whose stages lie in a loop. Each forward and backward checks that what came in is what the
 * neighbour made for this stage and microbatch. `pairs`: stages run pairs together. */
hr_status pipeline_step(const hr_schedule *s, bool pairs, pipeline_log *log);

#endif
