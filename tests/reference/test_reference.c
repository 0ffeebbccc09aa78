/* The model of the program against PyTorch's figures (small_moe.safetensors, and with multi-token
 * prediction small_moe_mtp.safetensors; see make_figures.py): losses and every gradient, from the
 * same weights and batch; plain, and as plans over two ranks. */
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
static const char MTP_FIGURES[] = "tests/reference/small_moe_mtp.safetensors";
static const double TOLERANCE = 1e-4; /* relative L2 of a tensor */
enum { SEQUENCES = 4 };

typedef struct figures {
    safetensors *file;
    model_shape shape;
    double aux, mtp; /* weights; mtp 0: none */
    /* What came out, from all ranks. */
    double loss[2], aux_loss[2], mtp_loss[2];
    double worst[2];
    char where[2][64];
} figures;

static int number(const figures *f, const char *key)
{
    const char *text = hr_app_safetensors_meta(f->file, key);
    return text ? atoi(text) : -1;
}

static void open_figures(figures *out, const char *path)
{
    figures f = {0};
    if (hr_app_safetensors_open(path, &f.file) < 0)
        fail_msg("%s", hr_last_error());
    const char *mtp = hr_app_safetensors_meta(f.file, "mtp");
    f.shape = (model_shape){.layers = number(&f, "layers"),
                            .width = number(&f, "width"),
                            .heads = number(&f, "heads"),
                            .experts = number(&f, "experts"),
                            .top_k = number(&f, "top_k"),
                            .expert_width = number(&f, "expert_width"),
                            .dense_layers = number(&f, "dense_layers"),
                            .dense_width = number(&f, "dense_width"),
                            .shared_width = number(&f, "shared_width"),
                            .seq = number(&f, "seq"),
                            .mtp = mtp != NULL};
    f.aux = atof(hr_app_safetensors_meta(f.file, "aux"));
    f.mtp = mtp ? atof(mtp) : 0;
    *out = f;
}

/* This rank's part of `prefix` + the parameter's name; for free(). */
static float *figure(const figures *f, const char *prefix, const hr_app_param *q)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, q->name);
    const st_tensor *t = hr_app_safetensors_find(f->file, name);
    size_t bytes = (size_t)hr_app_param_count(q) * sizeof(float);
    float *out = malloc(bytes);
    if (t && out &&
        hr_app_safetensors_read(f->file, t, (size_t)q->first * sizeof(float), bytes,
                                out) == HR_OK)
        return out;
    free(out);
    return NULL;
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
    int64_t all[SEQUENCES * 64];
    hr_status st = hr_app_safetensors_read(
        f->file, t, (size_t)first * (size_t)f->shape.seq * sizeof *all,
        (size_t)n * sizeof *all, all);
    for (int64_t i = 0; i < n && st >= 0; i++)
        host[i] = (int32_t)all[i];
    st = st < 0 ? st : hr_tensor_create(HR_I32, 1, &n, out);
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

/* The two losses beside the main one. */
static hr_status side_losses(figures *f, const hr_app_model *m, int rank)
{
    float aux, mtp = 0;
    hr_status st = hr_tensor_read(m->aux_sum, &aux, sizeof aux);
    if (st >= 0 && m->mtp.sum)
        st = hr_tensor_read(m->mtp.sum, &mtp, sizeof mtp);
    f->aux_loss[rank] = aux;
    f->mtp_loss[rank] = mtp;
    return st;
}

static float token_weight(const figures *f)
{
    return 1.0f / (float)(SEQUENCES * f->shape.seq);
}

/* ---- plain -------------------------------------------------------------------------------- */

static hr_status plain(figures *f, hr_app_model *m)
{
    hr_tensor *ids = NULL, *targets = NULL, *loss = NULL;
    hr_status st = load(f, m);
    st = st < 0 ? st : batch(f, "ids", 0, SEQUENCES, &ids);
    st = st < 0 ? st : batch(f, "targets", 0, SEQUENCES, &targets);
    st = st < 0 ? st : hr_app_model_plain_loss(m, ids, targets, &loss);
    st = st < 0 ? st : hr_backward(&loss, (hr_tensor *[]){NULL}, 1);
    float host = NAN;
    st = st < 0 ? st : hr_tensor_read(loss, &host, sizeof host);
    f->loss[0] = host;
    hr_tensor_release(ids);
    hr_tensor_release(targets);
    hr_tensor_release(loss);
    st = st < 0 ? st : side_losses(f, m, 0);
    return st < 0 ? st : judge(f, m, 0);
}

static hr_status plain_rank(hr_group *world, void *arg)
{
    figures *f = arg;
    hr_app_model_opts opts = {HR_INIT(hr_app_model_opts),
                              .shape = &f->shape,
                              .train = true,
                              .loss_scale = token_weight(f),
                              .aux_scale = (float)(f->aux / SEQUENCES),
                              .mtp_coef = (float)f->mtp};
    hr_app_model *m;
    hr_status st = hr_app_model_create(&opts, &m);
    if (st < 0)
        return st;
    st = plain(f, m);
    hr_app_model_destroy(m);
    return st;
}

static void same_loss(const figures *f, const char *name, const double got[2])
{
    double loss = got[0] + got[1];
    float want;
    const st_tensor *t = hr_app_safetensors_find(f->file, name);
    assert_int_equal(hr_app_safetensors_read(f->file, t, 0, sizeof want, &want), HR_OK);
    print_message("%s %.7f, PyTorch %.7f\n", name, loss, (double)want);
    assert_true(fabs(loss - (double)want) < TOLERANCE * (double)want);
}

static void run(const char *path, int ranks, hr_rank_fn fn)
{
    static figures f;
    open_figures(&f, path);
    if (hr_local_run(ranks, NULL, fn, &f) < 0)
        fail_msg("%s", hr_last_error());
    print_message("worst gradient %.2e (%s) %.2e (%s)\n", f.worst[0], f.where[0],
                  f.worst[1], f.where[1]);
    same_loss(&f, "loss", f.loss);
    same_loss(&f, "aux", f.aux_loss);
    if (f.shape.mtp)
        same_loss(&f, "mtp_loss", f.mtp_loss);
    assert_true(f.worst[0] < TOLERANCE && f.worst[1] < TOLERANCE);
    hr_app_safetensors_close(f.file);
}

static void plain_model_agrees_with_pytorch(void **state)
{
    run(FIGURES, 1, plain_rank);
}

static void plain_multi_token_prediction_agrees_with_pytorch(void **state)
{
    run(MTP_FIGURES, 1, plain_rank);
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
    st = st < 0 ? st : side_losses(s->f, s->m, s->rank);
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
                              .aux_scale = (float)(s.f->aux / SEQUENCES),
                              .mtp_coef = (float)s.f->mtp};
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
    run(FIGURES, 2, plan_rank);
}

static void multi_token_prediction_in_plans_agrees_with_pytorch(void **state)
{
    run(MTP_FIGURES, 2, plan_rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_model_agrees_with_pytorch),
        cmocka_unit_test(overlapped_plans_on_2_ranks_agree_with_pytorch),
        cmocka_unit_test(plain_multi_token_prediction_agrees_with_pytorch),
        cmocka_unit_test(multi_token_prediction_in_plans_agrees_with_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
