/* run_pipeline.h: how a run goes over its stages: the schedules and the layout, pure data, made before any
 * rank starts.
 */
#ifndef HR_APP_RUN_PIPELINE_H
#define HR_APP_RUN_PIPELINE_H
#include "headrace/schedule.h"
#include "options.h"

typedef struct pipeline {
    hr_schedule *training, *evaluation;
    hr_layout_part
        *parts;    /* what each stage holds; rank and chunk are the schedule's to say */
    char name[64]; /* of the training schedule, for people */
    char start[64]; /* auto: what it starts with; else "" */
    int ranks, stages, microbatches;
    hr_placement placement;
    int pairs;     /* overlapped, in the training schedule */
    double bubble; /* of all ranks together: simulated, a decoder layer costing one */
} pipeline;

/* Errors: ERR_INVALID, ERR_UNSUPPORTED and ERR_PARSE for what the options ask for and cannot be, with the
 * option in the sentence; ERR_IO, ERR_NOMEM. */
hr_status hr_app_pipeline_make(const train_options *o, pipeline *out);
void hr_app_pipeline_fini(pipeline *p);

/* Of auto: go on with the schedule that a former run chose, as hr_schedule_print() wrote it; false if it is
 * for other sizes. ERR_PARSE and ERR_INVALID where it is none, ERR_NOMEM. */
hr_status hr_app_pipeline_resume(pipeline *p, const char *text, bool *taken);

/* Share of all ranks' time in which they wait, by its costs. */
hr_status hr_app_schedule_bubble(const hr_schedule *s, double *out);
hr_status hr_app_schedule_copy(const hr_schedule *s, hr_schedule **out);

/* Does a microbatch go through `stage` on `rank`? */
bool hr_app_pipeline_on(const pipeline *p, int stage, int rank);

#endif
