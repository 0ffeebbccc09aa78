/* run_compare.c: see run_compare.h. What is compared is the whole checkpoint: parameters and both
 * moments of every one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data.h"
#include "model.h"
#include "support/run_compare.h"
#include "support/whole_state.h"
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 8 };

static void fresh(train_options *o, int ep, int microbatches, int64_t steps,
                  run_kind kind)
{
    train_case_init(o, ep, microbatches, steps);
    if (kind)
        kind(o);
}

/* ---- bits --------------------------------------------------------------------------------- */

typedef struct way {
    int overlap, delay;
    double link_gbps;
} way;

static char *checkpoint_of(int ep, run_kind kind, way w, size_t *n)
{
    train_options o;
    fresh(&o, ep, 4, 3, kind);
    o.overlap = w.overlap;
    o.delay_wgrad = w.delay;
    o.link_gbps = w.link_gbps;
    if (hr_app_train_steps(&o) < 0)
        fail_msg("ep %d overlap %d delay %d: %s", ep, w.overlap, w.delay,
                 hr_last_error());
    char *bytes = whole_state_bytes(o.out, n);
    train_case_fini(&o);
    assert_non_null(bytes);
    return bytes;
}

void run_compare_bits(int ep, run_kind kind)
{
    size_t n, k;
    char *first = checkpoint_of(ep, kind, (way){0, 0, 0}, &n);
    static const way other[] = {
        {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 1, 0.05}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char *bytes = checkpoint_of(ep, kind, other[i], &k);
        assert_int_equal(k, n);
        if (memcmp(bytes, first, n) != 0)
            fail_msg("ep %d overlap %d delay %d link %g: other bits", ep,
                     other[i].overlap, other[i].delay, other[i].link_gbps);
        free(bytes);
    }
    free(first);
}

/* ---- against the plain model -------------------------------------------------------------- */

typedef struct plain_case {
    train_options opts;
    whole_state state; /* what one step of it left */
    data_set *data;
    double worst;
    char where[64];
} plain_case;

/* Loss and gradients of all sequences in one batch. */
static hr_status plain_backward(const plain_case *c, hr_app_model *m)
{
    int seq = c->opts.model.seq;
    int64_t n = (int64_t)SEQUENCES * seq;
    int32_t host[2][SEQUENCES * 64];
    for (int s = 0; s < SEQUENCES; s++)
        hr_app_data_batch(c->data, c->opts.seed, 0, s, seq, host[0] + s * seq,
                          host[1] + s * seq);
    size_t bytes = (size_t)n * sizeof(int32_t);
    hr_tensor *ids = NULL, *targets = NULL, *loss = NULL;
    hr_status st = hr_tensor_create(HR_I32, 1, &n, &ids);
    st = st < 0 ? st : hr_tensor_create(HR_I32, 1, &n, &targets);
    st = st < 0 ? st : hr_tensor_write(ids, host[0], bytes);
    st = st < 0 ? st : hr_tensor_write(targets, host[1], bytes);
    st = st < 0 ? st : hr_app_model_plain_loss(m, ids, targets, &loss);
    st = st < 0 ? st : hr_backward(&loss, (hr_tensor *[]){NULL}, 1);
    hr_tensor_release(ids);
    hr_tensor_release(targets);
    hr_tensor_release(loss);
    return st;
}

/* After one step the first moment is a tenth of the gradient. */
static hr_status compare(plain_case *c, const hr_app_param *q)
{
    hr_tensor *t = hr_tensor_grad(q->w);
    int64_t n = hr_tensor_count(t);
    size_t bytes = (size_t)n * sizeof(float);
    float *g = malloc(bytes);
    char name[64];
    snprintf(name, sizeof name, "%s.adam_m", q->name);
    hr_status st = hr_tensor_read(t, g, bytes);
    const whole_tensor *moment = whole_state_find(&c->state, name);
    if (st >= 0 && (!moment || moment->count != n))
        st = hr_fail(HR_ERR_MISMATCH, NULL, "no '%s' as large as the gradient", name);
    for (int64_t i = 0; i < n; i++)
        g[i] *= 0.1f;
    double d = st < 0 ? 0 : train_case_distance(moment->data, g, n);
    if (!(d <= c->worst)) {
        c->worst = d;
        snprintf(c->where, sizeof c->where, "%s", q->name);
    }
    free(g);
    return st;
}

static hr_status plain_rank(hr_group *world, void *arg)
{
    plain_case *c = arg;
    const train_options *o = &c->opts;
    hr_app_model_opts opts = {HR_INIT(hr_app_model_opts),
                              .shape = &o->model,
                              .seed = (uint64_t)o->seed,
                              .train = true,
                              .loss_scale = 1.0f / (float)(SEQUENCES * o->model.seq),
                              .aux_scale = (float)(o->aux_coef / SEQUENCES),
                              .mtp_coef = (float)o->mtp_coef};
    hr_app_model *m;
    hr_status st = hr_app_model_create(&opts, &m);
    if (st < 0)
        return st;
    st = plain_backward(c, m);
    for (int i = 0; i < m->params.n && st >= 0; i++)
        st = compare(c, &m->params.list[i]);
    hr_app_model_destroy(m);
    return st;
}

void run_compare_plain(int ep, run_kind kind, double limit)
{
    plain_case c = {0};
    fresh(&c.opts, ep, SEQUENCES / ep, 1, kind);
    c.opts.clip = 0;
    if (hr_app_train_steps(&c.opts) < 0 || whole_state_read(c.opts.out, &c.state) < 0 ||
        hr_app_data_open(c.opts.data, DATA_CAP, &c.data) < 0 ||
        hr_local_run(1, NULL, plain_rank, &c) < 0)
        fail_msg("%d ranks: %s", ep, hr_last_error());
    print_message("%d ranks: worst distance %.2e (%s)\n", ep, c.worst, c.where);
    assert_true(c.worst < limit);
    hr_app_data_close(c.data);
    whole_state_fini(&c.state);
    train_case_fini(&c.opts);
}
