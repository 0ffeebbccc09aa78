/* What the host kernels share. A kernel cuts its work into parts whose limits follow from the shapes
 * alone, so that bits do not depend on the team, and leaves the arithmetic to hr__vec or to the BLAS. */
#ifndef HR_HOST_PARTS_H
#define HR_HOST_PARTS_H
#include "ops/host/vec.h"
#include "ops/kernels.h"

/* `part` for each of n parts; a single one on the calling thread. */
HR_RESULT hr_status hr__parts_run(hr_team *team, int64_t n, hr_team_part part,
                                  void *arg);

/* `count` numbers in 0..limit-1 (or -1 too, if `or_none`); else ERR_INVALID, naming the first. */
HR_RESULT hr_status hr__indices_check(const char *op, const char *what,
                                      const int32_t *index, int64_t count,
                                      int64_t limit, bool or_none);

/* Memory of the calling thread, 64-byte aligned, at least `bytes`; its contents last until the next
 * call. Freed with the thread. NULL: no memory. */
void *hr__scratch(size_t bytes);

/* Cosines and sines of rotary positions: for each position below `seq_len`, width/2 cosines, then
 * width/2 sines. Made once, kept for the life of the process. */
HR_RESULT hr_status hr__rotary_table(int64_t seq_len, int64_t width, float base,
                                     const float **out);

#endif
