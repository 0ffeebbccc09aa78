/* Overlap, delayed weight gradients and repetition change no bit of a run; the number of ranks changes
 * only the rounding. What is compared is the whole checkpoint: parameters and both moments of
 * every one, hence every gradient of every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint.h"
#include "data.h"
#include "model.h"
#include "support/train_case.h"
#include <stdlib.h>
#include <string.h>

static const char MODEL[] = "checkpoint/model.safetensors";

/* The checkpoint after three steps. */
static char *checkpoint_of(int ep, int overlap, int delay, double link_gbps, size_t *n)
{
    train_options o;
    train_case_init(&o, ep, 4, 3);
    o.overlap = overlap;
    o.delay_wgrad = delay;
    o.link_gbps = link_gbps;
    if (hr_app_train(&o) < 0)
        fail_msg("ep %d overlap %d delay %d: %s", ep, overlap, delay, hr_last_error());
    char *bytes = train_case_read(&o, MODEL, n);
    train_case_fini(&o);
    assert_non_null(bytes);
    return bytes;
}

static void all_equal_for(int ep)
{
    size_t n, k;
    char *first = checkpoint_of(ep, 0, 0, 0, &n);
    static const struct {
        int overlap, delay;
        double link;
    } other[] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 1, 0.05}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char *bytes =
            checkpoint_of(ep, other[i].overlap, other[i].delay, other[i].link, &k);
        assert_int_equal(k, n);
        if (memcmp(bytes, first, n) != 0)
            fail_msg("ep %d overlap %d delay %d link %g: other bits", ep,
                     other[i].overlap, other[i].delay, other[i].link);
        free(bytes);
    }
    free(first);
}

static void overlap_changes_no_bit_on_1_rank(void **state)
{
    all_equal_for(1);
}

static void overlap_changes_no_bit_on_2_ranks(void **state)
{
    all_equal_for(2);
}

static void overlap_changes_no_bit_on_4_ranks(void **state)
{
    all_equal_for(4);
}

/* ---- against the plain model -------------------------------------------------------------- */

enum { SEQUENCES = 8, RUNS = 3 };
static const int RANKS[RUNS] = {1, 2, 4};

/* One step of RANKS[i] ranks each, and the worst distance of a gradient from the plain one's. */
typedef struct plain_case {
    train_options opts[RUNS];
    safetensors *file[RUNS];
    data_set *data;
    double worst[RUNS];
    char where[RUNS][64];
} plain_case;

/* Loss and gradients of all sequences in one batch. */
static hr_status plain_backward(const plain_case *c, hr_app_model *m)
{
    int seq = c->opts[0].model.seq;
    int64_t n = (int64_t)SEQUENCES * seq;
    int32_t host[2][SEQUENCES * 64];
    for (int s = 0; s < SEQUENCES; s++)
        hr_app_data_batch(c->data, c->opts[0].seed, 0, s, seq, host[0] + s * seq,
                          host[1] + s * seq);
    size_t bytes = (size_t)n * sizeof(int32_t);
    hr_tensor *ids = NULL, *targets = NULL, *logits = NULL, *loss = NULL;
    hr_status st = hr_tensor_create(HR_I32, 1, &n, &ids);
    st = st < 0 ? st : hr_tensor_create(HR_I32, 1, &n, &targets);
    st = st < 0 ? st : hr_tensor_write(ids, host[0], bytes);
    st = st < 0 ? st : hr_tensor_write(targets, host[1], bytes);
    st = st < 0 ? st : hr_app_model_plain(m, ids, &logits);
    st = st < 0 ? st : hr_op_cross_entropy(logits, targets, 1.0f / (float)n, &loss);
    st = st < 0 ? st : hr_backward(&loss, (hr_tensor *[]){NULL}, 1);
    hr_tensor_release(ids);
    hr_tensor_release(targets);
    hr_tensor_release(logits);
    hr_tensor_release(loss);
    return st;
}

/* After one step the first moment is a tenth of the gradient. */
static hr_status compare(plain_case *c, int run, const hr_app_param *q)
{
    hr_tensor *t = hr_tensor_grad(q->w);
    int64_t n = hr_tensor_count(t);
    size_t bytes = (size_t)n * sizeof(float);
    float *g = malloc(bytes), *moment = malloc(bytes);
    char name[64];
    snprintf(name, sizeof name, "%s.adam_m", q->name);
    hr_status st = hr_tensor_read(t, g, bytes);
    if (st >= 0)
        st = hr_app_safetensors_get(c->file[run], name, ST_F32, q->ndim, q->shape,
                                    moment);
    for (int64_t i = 0; i < n; i++)
        g[i] *= 0.1f;
    double d = st < 0 ? 0 : train_case_distance(moment, g, n);
    if (!(d <= c->worst[run])) {
        c->worst[run] = d;
        snprintf(c->where[run], sizeof c->where[run], "%s", q->name);
    }
    free(g);
    free(moment);
    return st;
}

static hr_status plain_rank(hr_group *world, void *arg)
{
    plain_case *c = arg;
    const train_options *o = &c->opts[0];
    hr_app_model_opts opts = {HR_INIT(hr_app_model_opts), .shape = &o->model,
                              .seed = (uint64_t)o->seed, .train = true,
                              .aux_scale = (float)(o->aux_coef / SEQUENCES)};
    hr_app_model *m;
    hr_status st = hr_app_model_create(&opts, &m);
    if (st < 0)
        return st;
    st = plain_backward(c, m);
    for (int run = 0; run < RUNS; run++)
        for (int i = 0; i < m->params.n && st >= 0; i++)
            st = compare(c, run, &m->params.list[i]);
    hr_app_model_destroy(m);
    return st;
}

static void ranks_agree_with_a_plain_model_without_nodes(void **state)
{
    static plain_case c;
    checkpoint_info info;
    for (int i = 0; i < RUNS; i++) {
        train_case_init(&c.opts[i], RANKS[i], SEQUENCES / RANKS[i], 1);
        c.opts[i].clip = 0;
        if (hr_app_train(&c.opts[i]) < 0 ||
            hr_app_checkpoint_open(c.opts[i].out, &info, &c.file[i]) < 0)
            fail_msg("%d ranks: %s", RANKS[i], hr_last_error());
    }
    assert_int_equal(hr_app_data_open(c.opts[0].data, DATA_CAP, &c.data), HR_OK);
    if (hr_local_run(1, NULL, plain_rank, &c) < 0)
        fail_msg("%s", hr_last_error());
    for (int i = 0; i < RUNS; i++) {
        print_message("%d ranks: worst distance %.2e (%s)\n", RANKS[i], c.worst[i],
                      c.where[i]);
        assert_true(c.worst[i] < 1e-5);
        hr_app_safetensors_close(c.file[i]);
        train_case_fini(&c.opts[i]);
    }
    hr_app_data_close(c.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_changes_no_bit_on_1_rank),
        cmocka_unit_test(overlap_changes_no_bit_on_2_ranks),
        cmocka_unit_test(overlap_changes_no_bit_on_4_ranks),
        cmocka_unit_test(ranks_agree_with_a_plain_model_without_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
