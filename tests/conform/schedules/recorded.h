/* A recorded schedule table and ours beside it: what the cases of this runner share. */
#ifndef RECORDED_H
#define RECORDED_H
#include "headrace/schedule.h"
#include "tally.h"

#include <jansson.h>

/* How the generators' tables compare with the recorded ones, over a file. */
typedef struct claims {
    int equal;     /* action by action */
    int not_above; /* valid, makespans and peaks not above the recorded ones */
    int above;     /* worse in something: such a case is DIFFERENT */
    int unclaimed; /* no generator of ours stands for it */
} claims;

/* What the optimiser is held against, empty at first: see case_optimise.c. */
typedef struct target_list {
    struct target *at;
    size_t n, room;
} target_list;
void targets_add(target_list *t, json_t *c);
/* Counts in *to; `list` names those that differ. */
void targets_run(target_list *t, bool list, tally *to);
void targets_fini(target_list *t);

typedef struct context {
    json_t
        *base; /* the file that has the cases' sizes, by case; NULL if there is none */
    claims claims;
    bool list; /* name the tables that are not equal */
    target_list *targets;
} context;

/* The case's table, by way of our text form; `ranks` may be another list than the case's own.
 * NULL after a failure, which hr_last_error() tells. */
hr_schedule *read_table(json_t *c, json_t *ranks);

int param(json_t *c, const char *key); /* 0 if it has none */
const char *text_of(json_t *c, const char *key);

/* The two settings under which all tables were replayed. */
typedef struct setting {
    const char *name;
    hr_stage_cost cost;
    int64_t comm;
} setting;
extern const setting settings[2];
/* NULL after a failure. */
hr_figures *figures_of(hr_schedule *s, const setting *set, bool split_pairs);
int64_t ticks_of(json_t *number);
int64_t peak_of(json_t *c, const char *kind, int rank);

/* The table's figures against the recorded ones. */
verdict compare_figures(json_t *c, hr_schedule *s, outcome *o);

/* Ours for the recorded parameters, which the peer `refused` or not. Returns false if no generator
 * stands for the case; else *out is NULL where ours refuses. */
bool generate_claimed(json_t *c, bool refused, hr_schedule **out);
/* Equal, or not above; counted in the context. */
verdict compare_generated(json_t *c, context *x, outcome *o);

/* "0F0 0F1 ..." of a rank. */
char *order_text(const hr_schedule *s, int rank);
/* SHA-256 of the orders joined by newlines, in hexadecimal. */
void order_hash(const hr_schedule *s, char hex[65]);

verdict run_table_case(json_t *c, context *x, outcome *o);
verdict run_rejected_case(json_t *c, context *x, outcome *o);
verdict run_defective_case(json_t *c, context *x, outcome *o);
verdict run_action_case(json_t *c, context *x, outcome *o);
verdict run_verdict_case(json_t *c, context *x, outcome *o);
verdict run_csv_case(json_t *c, context *x, outcome *o);
verdict run_lowered_case(json_t *c, context *x, outcome *o);
verdict run_stream_case(json_t *c, context *x, outcome *o);
verdict run_counts_case(json_t *c, context *x, outcome *o);
verdict run_chunks_case(json_t *c, context *x, outcome *o);

#endif
