/* Whether what was done is what was recorded, and the runner's view of one case. */
#ifndef COMPARE_H
#define COMPARE_H
#include "record.h"
#include "tally.h"

/* Names of copies are numbered ("x.d#2") in order of making. An implementation that refuses a
 * misuse earlier makes fewer, so names are equal if they are but for the numbers, one to one
 * within a case. */
enum { CMP_NAMES = 2048 };
typedef struct cmp {
    int n;
    const char *expected[CMP_NAMES], *actual[CMP_NAMES];
    json_t *keep; /* so that the names live */
} cmp;
void cmp_init(cmp *c);
void cmp_fini(cmp *c);
bool cmp_equal(cmp *c, json_t *expected, json_t *actual);

/* Record by record; `skip` lists kinds (NULL-ended) that the expected trace may have and we do not
 * write. Takes `actual`. `where` goes into the report. */
verdict cmp_trace(cmp *c, json_t *expected, json_t *actual, const char *const *skip,
                  outcome *o, const char *where);
/* The same for one value. Takes `actual`. */
verdict cmp_value(cmp *c, json_t *expected, json_t *actual, outcome *o,
                  const char *where);

/* A list of one is the thing itself. Borrowed. */
json_t *single(json_t *v);

int case_int(json_t *c, const char *key, int otherwise); /* flags, numbers */
bool case_has(json_t *c, const char *key);               /* there and not null or 0 */

verdict run_node_case(json_t *c, outcome *o);
verdict run_layer_case(json_t *c, outcome *o);
verdict run_chunk_case(json_t *c, outcome *o);
verdict run_step_case(json_t *c, outcome *o);
verdict run_policy_case(json_t *c, outcome *o);
verdict run_streams_case(json_t *c, outcome *o);
verdict run_stage_case(json_t *c, outcome *o);
verdict run_ranks_case(json_t *c, outcome *o);
verdict run_grid_case(json_t *c, outcome *o);
verdict run_world_case(json_t *c, outcome *o);
verdict run_p2p_case(json_t *c, outcome *o);
verdict run_pipeline_case(json_t *c, outcome *o);

#endif
