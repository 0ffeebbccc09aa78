/* The model of the program against PyTorch's figures (small_moe.safetensors, see make_figures.py): loss
 * and every gradient, from the same weights and batch; plain, and as plans over two ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model.h"
#include "support/train_case.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char FIGURES[] = "tests/reference/small_moe.safetensors";
static const double TOLERANCE = 1e-4; /* relative L2 of a tensor */
enum { SEQUENCES = 4 };

typedef struct figures {
    safetensors *file;
    model_shape shape;
    double aux;
    /* What came out, from all ranks. */
    double loss[2];
    double worst[2];
    char where[2][64];
} figures;

static int number(const figures *f, const char *key)
{
    const char *text = hr_app_safetensors_meta(f->file, key);
    return text ? atoi(text) : -1;
}

static int open_figures(void **state)
{
    static figures f;
    if (hr_app_safetensors_open(FIGURES, &f.file) < 0)
        fail_msg("%s", hr_last_error());
    f.shape = (model_shape){.layers = number(&f, "layers"),
                            .width = number(&f, "width"),
                            .heads = number(&f, "heads"),
                            .experts = number(&f, "experts"),
                            .top_k = number(&f, "top_k"),
                            .expert_width = number(&f, "expert_width"),
                            .dense_layers = number(&f, "dense_layers"),
                            .dense_width = number(&f, "dense_width"),
                            .shared_width = number(&f, "shared_width"),
                            .seq = number(&f, "seq")};
    f.aux = atof(hr_app_safetensors_meta(f.file, "aux"));
    *state = &f;
    return 0;
}

static int close_figures(void **state)
{
    hr_app_safetensors_close(((figures *)*state)->file);
    return 0;
}

/* This rank's part of `prefix` + the parameter's name; for free(). */
static float *figure(const figures *f, const char *prefix, const hr_app_param *q)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, q->name);
    const st_tensor *t = hr_app_safetensors_find(f->file, name);
    size_t bytes = (size_t)hr_app_param_count(q) * sizeof(float);
    float *out = malloc(bytes);
    if (t && out)
        memcpy(out, (const float *)t->data + q->first, bytes);
    return t ? out : (free(out), NULL);
}

static hr_status load(const figures *f, hr_app_model *m)
{
    for (int i = 0; i < m->params.n; i++) {
        hr_app_param *q = &m->params.list[i];
        float *w = figure(f, "", q);
        hr_status st = w ? hr_tensor_write(q->w, w, hr_tensor_bytes(q->w))
                         : hr_fail(HR_ERR_INVALID, NULL, "no figure for '%s'", q->name);
        free(w);
        if (st < 0)
            return st;
    }
    return HR_OK;
}

/* Sequences first..first+count-1 of ids or targets. */
static hr_status batch(const figures *f, const char *name, int first, int count,
                       hr_tensor **out)
{
    const st_tensor *t = hr_app_safetensors_find(f->file, name);
    int64_t n = (int64_t)count * f->shape.seq;
    int32_t host[SEQUENCES * 64];
    for (int64_t i = 0; i < n; i++)
        host[i] = (int32_t)((const int64_t *)t->data)[first * f->shape.seq + i];
    hr_status st = hr_tensor_create(HR_I32, 1, &n, out);
    return st < 0 ? st : hr_tensor_write(*out, host, (size_t)n * sizeof *host);
}

/* Keep the worst distance of a gradient. */
static hr_status judge(figures *f, hr_app_model *m, int rank)
{
    for (int i = 0; i < m->params.n; i++) {
        hr_app_param *q = &m->params.list[i];
        hr_tensor *t = hr_tensor_grad(q->w);
        float *g = malloc(hr_tensor_bytes(t)), *want = figure(f, "grad.", q);
        hr_status st = hr_tensor_read(t, g, hr_tensor_bytes(t));
        double d = st < 0 || !want ? INFINITY
                                   : train_case_distance(g, want, hr_tensor_count(t));
        if (!(d <= f->worst[rank])) {
            f->worst[rank] = d;
            snprintf(f->where[rank], sizeof f->where[rank], "%s", q->name);
        }
        free(g);
        free(want);
        if (st < 0)
            return st;
    }
    return HR_OK;
}

static float token_weight(const figures *f)
{
    return 1.0f / (float)(SEQUENCES * f->shape.seq);
}

/* ---- plain -------------------------------------------------------------------------------- */

static hr_status plain(figures *f, hr_app_model *m)
{
    hr_tensor *ids = NULL, *targets = NULL, *logits = NULL, *loss = NULL;
    hr_status st = load(f, m);
    st = st < 0 ? st : batch(f, "ids", 0, SEQUENCES, &ids);
    st = st < 0 ? st : batch(f, "targets", 0, SEQUENCES, &targets);
    st = st < 0 ? st : hr_app_model_plain(m, ids, &logits);
    st = st < 0 ? st : hr_op_cross_entropy(logits, targets, token_weight(f), &loss);
    st = st < 0 ? st : hr_backward(&loss, (hr_tensor *[]){NULL}, 1);
    float host = NAN;
    st = st < 0 ? st : hr_tensor_read(loss, &host, sizeof host);
    f->loss[0] = host;
    hr_tensor_release(ids);
    hr_tensor_release(targets);
    hr_tensor_release(logits);
    hr_tensor_release(loss);
    return st < 0 ? st : judge(f, m, 0);
}

static hr_status plain_rank(hr_group *world, void *arg)
{
    figures *f = arg;
    hr_app_model_opts opts = {HR_INIT(hr_app_model_opts), .shape = &f->shape,
                              .train = true, .aux_scale = (float)(f->aux / SEQUENCES)};
    hr_app_model *m;
    hr_status st = hr_app_model_create(&opts, &m);
    if (st < 0)
        return st;
    st = plain(f, m);
    hr_app_model_destroy(m);
    return st;
}

static double expected_loss(const figures *f)
{
    return *(const float *)hr_app_safetensors_find(f->file, "loss")->data;
}

static void run(figures *f, int ranks, hr_rank_fn fn)
{
    for (int i = 0; i < 2; i++)
        f->loss[i] = f->worst[i] = 0;
    if (hr_local_run(ranks, NULL, fn, f) < 0)
        fail_msg("%s", hr_last_error());
    double loss = f->loss[0] + f->loss[1], want = expected_loss(f);
    print_message("loss %.7f, PyTorch %.7f; worst gradient %.2e (%s) %.2e (%s)\n", loss,
                  want, f->worst[0], f->where[0], f->worst[1], f->where[1]);
    assert_true(fabs(loss - want) < TOLERANCE * want);
    assert_true(f->worst[0] < TOLERANCE && f->worst[1] < TOLERANCE);
}

static void plain_model_agrees_with_pytorch(void **state)
{
    run(*state, 1, plain_rank);
}

/* ---- plans over two ranks ------------------------------------------------------------------ */

typedef struct step {
    figures *f;
    hr_app_model *m;
    int rank;
    hr_tensor *ids[SEQUENCES / 2], *targets[SEQUENCES / 2], *losses;
} step;

static hr_status step_plan(void *ctx, int m, bool overlap, hr_schedule_plan **plan)
{
    step *s = ctx;
    hr_build_plan_opts opts = {HR_INIT(hr_build_plan_opts), .microbatch = m,
                               .delay_wgrad = true, .serial = !overlap};
    return hr_app_model_plan(s->m, s->ids[m], s->targets[m], &opts, plan);
}

static hr_status step_loss(void *ctx, int m, hr_tensor *output, hr_loss *out)
{
    step *s = ctx;
    *out = (hr_loss){.loss = hr_tensor_retain(output), .tokens = -1};
    return hr_copy(hr_stream_current(), hr_tensor_f32(s->losses) + m,
                   hr_tensor_data(output), sizeof(float));
}

static hr_status run_step(step *s, hr_group *world)
{
    hr_status st = load(s->f, s->m);
    int n = SEQUENCES / 2;
    for (int m = 0; m < n && st >= 0; m++) {
        st = batch(s->f, "ids", s->rank * n + m, 1, &s->ids[m]);
        st = st < 0 ? st : batch(s->f, "targets", s->rank * n + m, 1, &s->targets[m]);
    }
    hr_no_pipelining_opts opts = {HR_INIT(hr_no_pipelining_opts),
                                  .microbatches = n,
                                  .overlap = true,
                                  .loss_mode = HR_LOSS_SUM,
                                  .ctx = s,
                                  .plan = step_plan,
                                  .loss = step_loss};
    st = st < 0 ? st : hr_tensor_zeros(HR_F32, 1, (int64_t[]){n}, &s->losses);
    st = st < 0 ? st : hr_forward_backward_no_pipelining(&opts);
    for (int k = DECAYED; k <= PLAIN && st >= 0; k++) {
        void *g = hr_tensor_data(s->m->params.g[k]);
        st = hr_all_reduce(world, g, g, s->m->params.count[k], HR_F32, HR_SUM,
                           hr_stream_current());
    }
    float host[SEQUENCES / 2];
    st = st < 0 ? st : hr_tensor_read(s->losses, host, sizeof host);
    for (int m = 0; m < n && st >= 0; m++)
        s->f->loss[s->rank] += host[m];
    return st < 0 ? st : judge(s->f, s->m, s->rank);
}

static hr_status plan_rank(hr_group *world, void *arg)
{
    step s = {.f = arg, .rank = hr_group_rank(world)};
    hr_stream *counts_stream = NULL;
    hr_group *tokens = NULL, *counts = NULL;
    hr_status st = hr_stream_create(hr_device_current(), NULL, &counts_stream);
    st = st < 0 ? st : hr_set_streams(NULL, true);
    st = st < 0 ? st : hr_group_create(world, NULL, 0, &tokens);
    st = st < 0 ? st : hr_group_create(world, NULL, 0, &counts);
    hr_app_model_opts opts = {HR_INIT(hr_app_model_opts),
                              .shape = &s.f->shape,
                              .train = true,
                              .tokens = tokens,
                              .counts = counts,
                              .counts_stream = counts_stream,
                              .loss_scale = token_weight(s.f),
                              .aux_scale = (float)(s.f->aux / SEQUENCES)};
    st = st < 0 ? st : hr_app_model_create(&opts, &s.m);
    st = st < 0 ? st : run_step(&s, world);
    for (int m = 0; m < SEQUENCES / 2; m++) {
        hr_tensor_release(s.ids[m]);
        hr_tensor_release(s.targets[m]);
    }
    hr_tensor_release(s.losses);
    hr_app_model_destroy(s.m);
    hr_group_release(tokens);
    hr_group_release(counts);
    return st;
}

static void overlapped_plans_on_2_ranks_agree_with_pytorch(void **state)
{
    run(*state, 2, plan_rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_model_agrees_with_pytorch),
        cmocka_unit_test(overlapped_plans_on_2_ranks_agree_with_pytorch),
    };
    return cmocka_run_group_tests(tests, open_figures, close_figures);
}
