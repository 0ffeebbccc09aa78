/* train_save.c: the whole state of a run in one file, and back: parameters, both moments of the
 * optimiser, the number of updates. The file holds the whole model in the order of its catalog, experts
 * of all ranks together, so it does not depend on the layout of ranks and stages.
 */
#include "checkpoint.h"
#include "train.h"
#include <stdlib.h>
#include <string.h>

enum { WEIGHT, MOMENT1, MOMENT2, STATES };
static const char *const SUFFIX[STATES] = {"", ".adam_m", ".adam_v"};
static const char UPDATES[] = "trainer.updates";

static hr_tensor *flat(const hr_app_params *p, const hr_app_param *q, int state)
{
    hr_tensor *const *by_state[STATES] = {p->w, p->m, p->v};
    return by_state[state][q->region];
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The list of what is written, with the memory behind it. Only rank 0 fills it; elsewhere it is empty
 * (tensors NULL). */
typedef struct manifest {
    st_tensor *tensors;
    char (*names)[64];
    void **bytes;
    int n;
    int64_t updates;
} manifest;

static void manifest_fini(manifest *f)
{
    for (int i = 0; i < f->n && f->bytes; i++)
        free(f->bytes[i]);
    free(f->tensors);
    free(f->names);
    free(f->bytes);
}

static hr_status manifest_init(manifest *f, int most)
{
    f->tensors = calloc((size_t)most, sizeof *f->tensors);
    f->names = calloc((size_t)most, sizeof *f->names);
    f->bytes = calloc((size_t)most, sizeof *f->bytes);
    return f->tensors && f->names && f->bytes
               ? HR_OK
               : hr_fail(HR_ERR_NOMEM, NULL, "no memory to list %d tensors", most);
}

static int shards(const train_rank *r, const hr_app_spec *spec)
{
    return spec->region == EXPERT ? r->job->opts->ep : 1;
}

static int64_t elements(const hr_app_spec *spec)
{
    int64_t n = 1;
    for (int d = 0; d < spec->ndim; d++)
        n *= spec->shape[d];
    return n;
}

/* Where this rank has its part of an entry's state. */
static float *mine(const train_rank *r, int entry, int state)
{
    const hr_app_params *p = &r->model->params;
    const hr_app_param *q = &p->list[r->model->param_of[entry]];
    return hr_tensor_f32(flat(p, q, state)) + q->offset;
}

/* Move what this rank has to do with shard `i`: it comes from one rank, and goes to rank 0 at `to`. */
static hr_status move(train_rank *r, int entry, int state, int i, float *to,
                      int64_t count)
{
    int me = hr_group_rank(r->groups.control);
    int from = hr_app_groups_source(&r->groups, r->job->opts, entry, i);
    size_t bytes = (size_t)count * sizeof(float);
    if (me == 0 && from == 0)
        return hr_copy(r->comm, to, mine(r, entry, state), bytes);
    if (me != 0 && me != from)
        return HR_OK;
    hr_p2p message = {.send = me == from,
                      .peer = me == from ? 0 : from,
                      .buf = me == from ? mine(r, entry, state) : to,
                      .bytes = bytes};
    return hr_group_batch(r->groups.control, &message, 1, r->comm);
}

/* The whole of one entry's state into `host` of rank 0. */
static hr_status gather(train_rank *r, int entry, int state, void *host)
{
    const hr_app_spec *spec = &r->model->catalog->list[entry].spec;
    int n = shards(r, spec);
    int64_t all = elements(spec);
    hr_tensor *t = NULL;
    if (host) {
        APP_TRY(hr_tensor_create(HR_F32, 1, &all, &t));
        hr_storage_record_stream(hr_tensor_storage(t), r->comm);
    }
    hr_status st = hr_app_rank_fence(r, r->compute, r->comm);
    for (int i = 0; i < n && st >= 0; i++)
        st = move(r, entry, state, i, t ? hr_tensor_f32(t) + i * (all / n) : NULL,
                  all / n);
    if (st >= 0)
        st = hr_app_rank_fence(r, r->comm, r->compute);
    if (st >= 0 && host)
        st = hr_tensor_read(t, host, (size_t)all * sizeof(float));
    hr_tensor_release(t);
    return st;
}

static hr_status collect(train_rank *r, int entry, int state, manifest *f)
{
    const hr_app_spec *spec = &r->model->catalog->list[entry].spec;
    if (!f->tensors)
        return gather(r, entry, state, NULL);
    size_t bytes = (size_t)elements(spec) * sizeof(float);
    st_tensor *t = &f->tensors[f->n];
    *t = (st_tensor){.name = f->names[f->n], .dtype = ST_F32, .ndim = spec->ndim};
    snprintf(f->names[f->n], sizeof f->names[0], "%s%s", spec->name, SUFFIX[state]);
    for (int d = 0; d < spec->ndim; d++)
        t->shape[d] = spec->shape[d];
    f->bytes[f->n] = malloc(bytes);
    t->data = f->bytes[f->n];
    if (!f->bytes[f->n++])
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %zu bytes of '%s'", bytes,
                       t->name);
    return gather(r, entry, state, f->bytes[f->n - 1]);
}

static hr_status write(train_rank *r, int64_t step, manifest *f)
{
    const train_options *o = r->job->opts;
    f->updates = r->updates;
    f->tensors[f->n] = (st_tensor){
        .name = UPDATES, .dtype = ST_I64, .ndim = 1, .shape = {1}, .data = &f->updates};
    checkpoint_info info = {.model = o->model,
                            .step = step,
                            .seed = o->seed,
                            .schedule = r->job->choice.text};
    return hr_app_checkpoint_write(o->out, &info, o->keep, f->tensors, f->n + 1);
}

hr_status hr_app_rank_save(train_rank *r, int64_t step)
{
    int n = r->model->catalog->n;
    manifest f = {0};
    hr_status st = HR_OK;
    if (hr_group_rank(r->groups.world) == 0)
        st = manifest_init(&f, STATES * n + 1);
    for (int state = 0; state < STATES; state++)
        for (int i = 0; i < n && st >= 0; i++)
            st = collect(r, i, state, &f);
    if (st >= 0 && f.tensors)
        st = write(r, step, &f);
    manifest_fini(&f);
    return st;
}

/* ---- reading ------------------------------------------------------------------------------ */

static hr_status restore(train_rank *r, const hr_app_param *q, int state)
{
    const hr_app_spec *spec = &r->model->catalog->list[q->entry].spec;
    int64_t n = hr_app_param_count(q);
    char name[64];
    snprintf(name, sizeof name, "%s%s", q->name, SUFFIX[state]);
    float *host = malloc((size_t)elements(spec) * sizeof(float));
    hr_status st =
        host ? HR_OK : hr_fail(HR_ERR_NOMEM, NULL, "no memory for '%s'", name);
    if (st >= 0)
        st = hr_app_safetensors_get(r->job->resumed, name, ST_F32, q->ndim, spec->shape,
                                    host);
    hr_tensor *part = NULL;
    if (st >= 0)
        st = hr_tensor_over(hr_tensor_storage(flat(&r->model->params, q, state)),
                            (size_t)q->offset * sizeof(float), HR_F32, 1, &n, &part);
    if (st >= 0)
        st = hr_tensor_write(part, host + q->first, (size_t)n * sizeof(float));
    hr_tensor_release(part);
    free(host);
    return st;
}

hr_status hr_app_rank_resume(train_rank *r)
{
    const hr_app_params *p = &r->model->params;
    for (int state = 0; state < STATES; state++)
        for (int i = 0; i < p->n; i++)
            APP_TRY(restore(r, &p->list[i], state));
    return hr_app_safetensors_get(r->job->resumed, UPDATES, ST_I64, 1, (int64_t[]){1},
                                  &r->updates);
}
