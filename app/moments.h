/* moments.h: the moments of the optimiser that a rank keeps, and its update of the weights.
 *
 * A rank keeps them of ranges of its parameters: of all that it has, or, where they are sharded over data-parallel
 * ranks, of its share. They lie side by side, region by region, in the order of the declarations:
 *
 *     weights    | a a a a a a | b b b b | c c c |      its ranges: the second half of each
 *     moments    | a a a b b c |
 */
#ifndef HR_APP_MOMENTS_H
#define HR_APP_MOMENTS_H
#include "headrace/ops.h"
#include "params.h"

typedef struct hr_app_kept {
    const hr_app_param *of;
    int64_t first, count; /* elements of what the rank has of it */
    int64_t at;           /* where their moments are in the region's */
} hr_app_kept;

/* What one launch updates: neighbours among weights and among moments. */
typedef struct hr_app_run {
    hr_app_region region;
    hr_tensor *w, *g, *m, *v;
} hr_app_run;

typedef struct hr_app_moments {
    hr_app_kept *kept;
    int n, cap;
    int64_t count[REGIONS];
    hr_tensor *m[REGIONS], *v[REGIONS]; /* flat, f32 */
    hr_app_run *runs;
    int n_runs;
} hr_app_moments;

/* Declare that elements `first` to `first + count - 1` of `of` are kept, in order; neighbours join. */
HR_RESULT hr_status hr_app_moments_keep(hr_app_moments *t, const hr_app_param *of,
                                        int64_t first, int64_t count);
/* Allocate, zeros, on the current stream. `p` stays as it is until fini. */
HR_RESULT hr_status hr_app_moments_build(hr_app_moments *t, const hr_app_params *p);
/* One step on the current stream; `decay` is the weight decay where there is any. */
HR_RESULT hr_status hr_app_moments_step(const hr_app_moments *t, hr_adamw_opts *opts,
                                        float decay);
void hr_app_moments_fini(hr_app_moments *t);

#endif
