/* train_save.c: the whole state of a run in one file, and back: parameters, both moments of the
 * optimiser, the number of updates. Experts of all ranks stand together in their order, so a
 * file does not depend on the number of ranks.
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

/* The shape of the whole parameter, all ranks together. */
static void whole_shape(const hr_app_param *q, int ranks, int64_t shape[HR_MAX_DIMS])
{
    memcpy(shape, q->shape, sizeof q->shape);
    if (q->region == EXPERT)
        shape[0] *= ranks;
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

/* Contents of one parameter's state, gathered from all ranks. Collective for experts. */
static hr_status gather(train_rank *r, const hr_app_param *q, int state, void *host)
{
    int64_t n = hr_app_param_count(q), all = n * hr_group_size(r->world);
    float *at = hr_tensor_f32(flat(&r->model->params, q, state)) + q->offset;
    hr_tensor *t;
    if (q->region != EXPERT)
        all = n;
    APP_TRY(hr_tensor_create(HR_F32, 1, &all, &t));
    hr_status st;
    if (q->region != EXPERT) {
        st = hr_copy(r->compute, hr_tensor_data(t), at, (size_t)n * sizeof(float));
    } else if ((st = hr_app_rank_fence(r, r->compute, r->comm)) >= 0) {
        hr_storage_record_stream(hr_tensor_storage(t), r->comm);
        st = hr_all_gather(r->grads, at, hr_tensor_data(t), n, HR_F32, r->comm);
        if (st >= 0)
            st = hr_app_rank_fence(r, r->comm, r->compute);
    }
    if (st >= 0 && host)
        st = hr_tensor_read(t, host, (size_t)all * sizeof(float));
    hr_tensor_release(t);
    return st;
}

static hr_status collect(train_rank *r, const hr_app_param *q, int state, manifest *f)
{
    int ranks = hr_group_size(r->world);
    if (!f->tensors)
        return gather(r, q, state, NULL);
    st_tensor *t = &f->tensors[f->n];
    *t = (st_tensor){.name = f->names[f->n], .dtype = ST_F32, .ndim = q->ndim};
    snprintf(f->names[f->n], sizeof f->names[0], "%s%s", q->name, SUFFIX[state]);
    int64_t whole[HR_MAX_DIMS];
    whole_shape(q, ranks, whole);
    size_t bytes = sizeof(float);
    for (int d = 0; d < q->ndim; d++)
        bytes *= (size_t)(t->shape[d] = whole[d]);
    f->bytes[f->n] = malloc(bytes);
    t->data = f->bytes[f->n];
    if (!f->bytes[f->n++])
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %zu bytes of '%s'", bytes,
                       t->name);
    return gather(r, q, state, f->bytes[f->n - 1]);
}

static hr_status write(train_rank *r, int64_t step, manifest *f)
{
    const train_options *o = r->job->opts;
    f->updates = r->updates;
    f->tensors[f->n] = (st_tensor){
        .name = UPDATES, .dtype = ST_I64, .ndim = 1, .shape = {1}, .data = &f->updates};
    checkpoint_info info = {.model = o->model, .step = step, .seed = o->seed};
    return hr_app_checkpoint_write(o->out, &info, o->keep, f->tensors, f->n + 1);
}

hr_status hr_app_rank_save(train_rank *r, int64_t step)
{
    const hr_app_params *p = &r->model->params;
    manifest f = {0};
    hr_status st = HR_OK;
    if (hr_group_rank(r->world) == 0)
        st = manifest_init(&f, STATES * p->n + 1);
    for (int state = 0; state < STATES; state++)
        for (int i = 0; i < p->n && st >= 0; i++)
            st = collect(r, &p->list[i], state, &f);
    if (st >= 0 && f.tensors)
        st = write(r, step, &f);
    manifest_fini(&f);
    return st;
}

/* ---- reading ------------------------------------------------------------------------------ */

static hr_status restore(train_rank *r, const hr_app_param *q, int state)
{
    int64_t n = hr_app_param_count(q), shape[HR_MAX_DIMS];
    int ranks = hr_group_size(r->world);
    whole_shape(q, ranks, shape);
    char name[64];
    snprintf(name, sizeof name, "%s%s", q->name, SUFFIX[state]);
    size_t whole =
        (size_t)n * (q->region == EXPERT ? (size_t)ranks : 1) * sizeof(float);
    float *host = malloc(whole);
    hr_status st =
        host ? HR_OK : hr_fail(HR_ERR_NOMEM, NULL, "no memory for '%s'", name);
    if (st >= 0)
        st =
            hr_app_safetensors_get(r->job->resumed, name, ST_F32, q->ndim, shape, host);
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
