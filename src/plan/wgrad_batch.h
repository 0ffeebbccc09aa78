/* The stored weight gradients of one (chunk, microbatch) while its backward runs. Internal to src/plan;
 * the store itself is public. */
#ifndef HR_WGRAD_BATCH_H
#define HR_WGRAD_BATCH_H
#include "plan/slot.h"

typedef struct hr__wgrad_batch hr__wgrad_batch;

/* ERR_STATE "wgrad_stored_twice": the store has these and has not run them. */
hr_status hr__wgrad_batch_open(hr_wgrad_store *store, int chunk, int microbatch,
                               hr__wgrad_batch **out);
hr_status hr__wgrad_batch_take(hr__wgrad_batch *batch, hr__slot_node *sn);
void hr__wgrad_batch_commit(hr__wgrad_batch *batch); /* the store's from now on */
void hr__wgrad_batch_drop(hr__wgrad_batch *batch); /* instead. NULL is fine for both */

#endif
