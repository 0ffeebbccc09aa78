/* moments.c: see moments.h. */
#include "moments.h"
#include "app_try.h"
#include <stdlib.h>

hr_status hr_app_moments_keep(hr_app_moments *t, const hr_app_param *of, int64_t first,
                              int64_t count)
{
    hr_app_kept *last = t->n > 0 ? &t->kept[t->n - 1] : NULL;
    if (last && last->of == of && last->first + last->count == first) {
        last->count += count;
        t->count[of->region] += count;
        return HR_OK;
    }
    if (count == 0)
        return HR_OK;
    if (!t->kept || t->n == t->cap) {
        int cap = t->cap ? 2 * t->cap : 32;
        hr_app_kept *kept = realloc(t->kept, (size_t)cap * sizeof *kept);
        if (!kept)
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory to list %d moments", cap);
        t->kept = kept;
        t->cap = cap;
    }
    t->kept[t->n++] = (hr_app_kept){of, first, count, t->count[of->region]};
    t->count[of->region] += count;
    return HR_OK;
}

static hr_status add_run(hr_app_moments *t, const hr_app_params *p, hr_app_region r,
                         const hr_app_kept *from, int64_t count)
{
    hr_app_run *run = &t->runs[t->n_runs++];
    int64_t at = from->of->offset + from->first;
    run->region = r;
    APP_TRY(hr_app_flat_part(p->w[r], at, count, &run->w));
    APP_TRY(hr_app_flat_part(p->g[r], at, count, &run->g));
    APP_TRY(hr_app_flat_part(t->m[r], from->at, count, &run->m));
    return hr_app_flat_part(t->v[r], from->at, count, &run->v);
}

/* Of one region; its moments have no gaps, so a run ends where its weights have one. */
static hr_status add_runs(hr_app_moments *t, const hr_app_params *p, hr_app_region r)
{
    const hr_app_kept *from = NULL;
    int64_t count = 0;
    for (int i = 0; i < t->n; i++) {
        const hr_app_kept *k = &t->kept[i];
        if (k->of->region != r)
            continue;
        if (from &&
            from->of->offset + from->first + count != k->of->offset + k->first) {
            APP_TRY(add_run(t, p, r, from, count));
            from = NULL;
        }
        if (!from) {
            from = k;
            count = 0;
        }
        count += k->count;
    }
    return from ? add_run(t, p, r, from, count) : HR_OK;
}

hr_status hr_app_moments_build(hr_app_moments *t, const hr_app_params *p)
{
    t->runs = calloc((size_t)t->n + 1, sizeof *t->runs);
    if (!t->runs)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d moments", t->n);
    for (int r = 0; r < REGIONS; r++) {
        APP_TRY(hr_tensor_zeros(HR_F32, 1, &t->count[r], &t->m[r]));
        APP_TRY(hr_tensor_zeros(HR_F32, 1, &t->count[r], &t->v[r]));
        APP_TRY(add_runs(t, p, (hr_app_region)r));
    }
    return HR_OK;
}

hr_status hr_app_moments_step(const hr_app_moments *t, hr_adamw_opts *opts, float decay)
{
    for (int i = 0; i < t->n_runs; i++) {
        const hr_app_run *run = &t->runs[i];
        opts->weight_decay = run->region == PLAIN ? 0 : decay;
        APP_TRY(hr_op_adamw(run->w, run->g, run->m, run->v, opts));
    }
    return HR_OK;
}

void hr_app_moments_fini(hr_app_moments *t)
{
    for (int i = 0; i < t->n_runs; i++) {
        hr_tensor_release(t->runs[i].w);
        hr_tensor_release(t->runs[i].g);
        hr_tensor_release(t->runs[i].m);
        hr_tensor_release(t->runs[i].v);
    }
    for (int r = 0; r < REGIONS; r++) {
        hr_tensor_release(t->m[r]);
        hr_tensor_release(t->v[r]);
    }
    free(t->runs);
    free(t->kept);
    *t = (hr_app_moments){0};
}
