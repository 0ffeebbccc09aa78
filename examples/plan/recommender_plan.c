/* A plan of one's own that is no transformer: a table of two functions (hr_schedule_plan_ops), and
 * whoever runs plans can run this one beside another of its kind.
 *
 * The model is a recommender. Its table of features is too large for one rank, so each rank holds the
 * features of one kind, and looks them up for the samples of all ranks; an exchange brings them to the
 * rank that has the sample, where they are scored:
 *
 *     lookup    (compute)         table[ids]            rows for everybody's samples
 *     exchange  (communication)   all-to-all            rows of all kinds for my samples
 *     score     (compute)         rows . w
 *
 * One plan is the work of one microbatch. Two of them interleave so that each transfer has arithmetic
 * of the other microbatch to hide behind (f: forward of this one, b: backward of the one before):
 *
 *     compute         score bwd(b)  lookup fwd(f)    lookup bwd(b)    score fwd(f)
 *     communication                 exchange bwd(b)  exchange fwd(f)
 *
 * The host issues these rows in that order and waits for nothing: each plan's event keeps its own
 * nodes in order, and no event stands between the two plans. Read from train() up. */
#include <headrace/headrace.h>
#include <stdlib.h>
#include <string.h>

#define TRY(expr)                                                                      \
    do {                                                                               \
        hr_status st_ = (expr);                                                        \
        if (st_ < 0)                                                                   \
            return st_;                                                                \
    } while (0)

/* R ranks, M microbatches of N samples a rank, tables of V rows, C wide; ALL ranks' samples. */
enum { R = 2, M = 5, N = 3, V = 4, C = 2, ALL = R * N };

typedef struct model {
    hr_group *group;
    hr_tensor *table;  /* [V,C]: this rank's kind of feature */
    hr_tensor *w;      /* [1,C] */
    hr_tensor *ids[M]; /* [ALL]: what each rank's samples have of this kind */
} model;

/* ---- what the three nodes do ------------------------------------------------------------------- */
static hr_status lookup(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                        hr_tensor **out, int *n_out)
{
    const model *m = ctx;
    *n_out = 1;
    return hr_op_embedding(m->table, in[0], &out[0]);
}

/* N rows to each rank, N rows from each: there and back are the same transfer. */
static hr_status all_to_all(const model *m, hr_tensor *from, hr_tensor **to)
{
    const int64_t counts[R] = {N, N};
    TRY(hr_tensor_create(HR_F32, 2, hr_tensor_shape(from), to));
    return hr_all_to_all_v(m->group, hr_tensor_data(from), counts, hr_tensor_data(*to),
                           counts, sizeof(float[C]), hr_stream_current());
}

static hr_status exchange(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                          hr_tensor **out, int *n_out)
{
    *n_out = 1;
    TRY(all_to_all(ctx, in[0], &out[0]));
    /* No operator made it, so nothing says by itself that its gradient is wanted. */
    return hr_tensor_set_requires_grad(out[0], true);
}

static hr_status exchange_back(void *ctx, hr_node *node, hr_tensor *const *outputs,
                               hr_tensor *const *grads, int n, hr_tensor **used,
                               int *n_used)
{
    hr_tensor *g = NULL;
    used[(*n_used)++] = grads[0]; /* of the compute stream, read on this one */
    hr_status st = all_to_all(ctx, grads[0], &g);
    if (st >= 0)
        st = hr_tensor_set_grad(hr_node_input(node, 0), g);
    hr_tensor_release(g);
    return st;
}

static hr_status score(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                       hr_tensor **out, int *n_out)
{
    const model *m = ctx;
    *n_out = 1;
    return hr_op_linear(in[0], m->w, NULL, &out[0]); /* its backward is the engine's */
}

/* ---- the plan: an object that starts with hr_schedule_plan ---------------------------------------- */
typedef struct plan {
    hr_schedule_plan base; /* the table and the event */
    hr_node *lookup, *exchange, *score;
    hr_tensor *ids;
} plan;

/* One tensor in, one out; the node keeps the output until its backward, and we only borrow it. */
static hr_status run_forward(hr_node *node, hr_tensor **x)
{
    hr_tensor *const *y;
    int n;
    TRY(hr_node_forward(node, x, 1, &y, &n));
    *x = y[0];
    return HR_OK;
}

/* One gradient in, one out, which is ours; the one that went in has done its work. */
static hr_status run_backward(hr_node *node, hr_tensor **grad)
{
    hr_tensor *in[HR_NODE_MAX];
    int n;
    TRY(hr_node_backward(node, grad, 1, in, &n));
    hr_tensor_release(*grad);
    *grad = in[0]; /* NULL behind the lookup: ids have no gradient */
    return HR_OK;
}

/* The drawing above, in the order in which it is issued. Either plan may be NULL. */
static hr_status interleave(plan *f, plan *b, hr_tensor **x, hr_tensor **g)
{
    if (b) {
        TRY(run_backward(b->score, g));
        TRY(run_backward(b->exchange, g));
    }
    if (f) {
        TRY(run_forward(f->lookup, x));
        TRY(run_forward(f->exchange, x));
    }
    if (b)
        TRY(run_backward(b->lookup, g));
    if (f)
        TRY(run_forward(f->score, x));
    return HR_OK;
}

/* `hooks` are where a pipeline receives before and sends after (hr_plan_hooks); this model is not cut
 * into stages, and calls none. */
static hr_status plan_run(hr_schedule_plan *forward, hr_schedule_plan *backward,
                          hr_tensor *grad, const hr_plan_hooks *hooks,
                          hr_tensor **output)
{
    plan *f = (plan *)forward, *b = (plan *)backward;
    if (b && !grad)
        return hr_fail(HR_ERR_INVALID, "no_grad_given", "recommender: no gradient");
    hr_tensor *x = f ? f->ids : NULL, *g = hr_tensor_retain(grad);
    hr_status st = interleave(f, b, &x, &g);
    hr_tensor_release(g);
    if (st >= 0 && f)
        *output = hr_tensor_retain(x); /* the caller's, one reference */
    return st;
}

static void plan_destroy(hr_schedule_plan *base)
{
    plan *p = (plan *)base;
    hr_node_destroy(p->lookup);
    hr_node_destroy(p->exchange);
    hr_node_destroy(p->score);
    hr_event_destroy(p->base.event);
    hr_tensor_release(p->ids);
    free(p);
}

static const hr_schedule_plan_ops recommender = {"recommender", plan_run, plan_destroy};

static hr_status add_node(const plan *p, const char *name, hr_node_forward_fn forward,
                          hr_node_backward_fn backward, model *m, hr_stream *s,
                          hr_node **out)
{
    return hr_schedule_node_create(
        &(hr_schedule_node_opts){HR_INIT(hr_schedule_node_opts), .name = name,
                                 .forward = forward, .backward = backward, .ctx = m,
                                 .stream = s, .event = p->base.event},
        out);
}

static hr_status fill_plan(plan *p, model *m)
{
    hr_stream *compute = hr_get_comp_stream(), *comm = hr_get_comm_stream();
    TRY(hr_event_create(hr_device_current(), &p->base.event));
    TRY(add_node(p, "lookup", lookup, NULL, m, compute, &p->lookup));
    TRY(add_node(p, "exchange", exchange, exchange_back, m, comm, &p->exchange));
    return add_node(p, "score", score, NULL, m, compute, &p->score);
}

/* Megatron's build_schedule_plan: from the inputs of one microbatch to its plan. */
static hr_status build_plan(model *m, int microbatch, hr_schedule_plan **out)
{
    plan *p = calloc(1, sizeof *p);
    if (!p)
        return hr_fail(HR_ERR_NOMEM, NULL, "recommender: no memory for a plan");
    p->base.ops = &recommender;
    p->ids = hr_tensor_retain(m->ids[microbatch]);
    hr_status st = fill_plan(p, m);
    if (st < 0)
        plan_destroy(&p->base); /* what is not there yet is NULL, which is fine */
    else
        *out = &p->base;
    return st;
}

/* ---- a step of M microbatches -------------------------------------------------------------------- */
/* The loss is half the sum of squares of all scores, so that the gradient of a score is the score:
 * what came out of a plan's forward goes into its backward. */
static hr_status step(model *m, bool overlap)
{
    hr_schedule_plan *f = NULL, *b = NULL;
    hr_tensor *score_f = NULL, *score_b = NULL;
    hr_status st = HR_OK;
    for (int i = 0; i <= M && st >= 0; i++) { /* one more: the last backward */
        if (i < M)
            st = build_plan(m, i, &f);
        if (st >= 0 && overlap)
            st = hr_schedule_plan_run(f, b, score_b, NULL, &score_f);
        if (st >= 0 && !overlap && b)
            st = hr_schedule_plan_run(NULL, b, score_b, NULL, &score_f);
        if (st >= 0 && !overlap && f)
            st = hr_schedule_plan_run(f, NULL, NULL, NULL, &score_f);
        hr_schedule_plan_destroy(b);
        hr_tensor_release(score_b);
        b = f, score_b = score_f;
        f = NULL, score_f = NULL;
    }
    hr_schedule_plan_destroy(b);
    hr_tensor_release(score_b);
    return st;
}

/* ---- a rank ---------------------------------------------------------------------------------------- */
/* The data follow from (rank, microbatch, place): every rank can know what another has. */
static int32_t id_of(int kind, int microbatch, int sample)
{
    return (kind + 3 * microbatch + sample * sample) % V;
}

static hr_status fill_model(model *m, int rank)
{
    const int64_t table_shape[2] = {V, C}, w_shape[2] = {1, C}, ids_shape[1] = {ALL};
    const float w[C] = {1, 2};
    float table[V * C];
    int32_t ids[ALL];
    for (int i = 0; i < V * C; i++)
        table[i] = (float)(i - 3 + rank);
    TRY(hr_tensor_create(HR_F32, 2, table_shape, &m->table));
    TRY(hr_tensor_create(HR_F32, 2, w_shape, &m->w));
    TRY(hr_tensor_write(m->table, table, sizeof table));
    TRY(hr_tensor_write(m->w, w, sizeof w));
    TRY(hr_tensor_set_requires_grad(m->table, true));
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < ALL; j++)
            ids[j] = id_of(rank, i, j);
        TRY(hr_tensor_create(HR_I32, 1, ids_shape, &m->ids[i]));
        TRY(hr_tensor_write(m->ids[i], ids, sizeof ids));
    }
    return HR_OK;
}

/* The same by plain loops: small whole numbers, so that every sum is exact. */
static void expected_gradient(int rank, float g[V * C])
{
    memset(g, 0, sizeof(float[V * C]));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < ALL; j++) {
            int v = id_of(rank, i, j);
            float x0 = (float)(v * C - 3 + rank), s = x0 + 2 * (x0 + 1);
            float *row = &g[(size_t)v * C];
            row[0] += s;
            row[1] += 2 * s;
        }
}

static hr_status train(model *m, int rank)
{
    float expected[V * C], got[V * C];
    expected_gradient(rank, expected);
    TRY(hr_set_streams(NULL, false));
    for (int overlap = 0; overlap < 2; overlap++) {
        TRY(step(m, overlap));
        TRY(hr_tensor_read(hr_tensor_grad(m->table), got, sizeof got));
        TRY(hr_device_synchronize(hr_device_current()));
        if (memcmp(got, expected, sizeof got) != 0)
            return hr_fail(HR_ERR_MISMATCH, NULL, "overlap %d: wrong gradient",
                           overlap);
        TRY(hr_tensor_set_grad(m->table,
                               NULL)); /* forget it: the next step begins at 0 */
    }
    return HR_OK;
}

static hr_status rank_main(hr_group *world, void *unused)
{
    model m = {.group = world};
    int rank = hr_group_rank(world);
    hr_status st = fill_model(&m, rank);
    if (st >= 0)
        st = train(&m, rank);
    for (int i = 0; i < M; i++)
        hr_tensor_release(m.ids[i]);
    hr_tensor_release(m.table);
    hr_tensor_release(m.w);
    return st;
}

int main(void)
{
    hr_status st = hr_local_run(R, NULL, rank_main, NULL);
    puts(st < 0 ? hr_last_error()
                : "the same gradient with overlap, without, and by hand");
    return st < 0;
}
