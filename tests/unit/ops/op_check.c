/* See op_check.h. */
#include "op_check.h"
#include "support/backend.h"
#include "tensor/bf16.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 160 };

enum where { FRESH, INSIDE_A_STORAGE, BEHIND_A_VIEW };

/* How the operator is run; all ways must give the same bits. */
struct way {
    const char *name;
    int cores;
    enum where where;
    bool queue;
    int more; /* forward and backward so many times more */
    bool bf16;
};

struct result {
    int64_t count; /* of the output */
    float *out;
    float *grad[OP_INPUTS];
    hr_dtype type, grad_type[OP_INPUTS];
};

void op_ok(hr_status st)
{
    if (st < 0)
        fail_msg("%s: %s", hr_status_name(st), hr_last_error());
}

void op_fails(hr_status got, hr_status want, ...)
{
    va_list texts;
    const char *text;
    assert_int_equal(got, want);
    va_start(texts, want);
    while ((text = va_arg(texts, const char *)) != NULL)
        if (!strstr(hr_last_error(), text))
            fail_msg("'%s' is not in '%s'", text, hr_last_error());
    va_end(texts);
}

hr_device *op_open(int cores)
{
    hr_device *dev;
    op_ok(hr_device_open(
        test_backend(),
        &(hr_device_opts){HR_INIT(hr_device_opts), .cores = cores, .poison = 1}, &dev));
    hr_device_set_current(dev);
    return dev;
}

void op_close(hr_device *dev)
{
    hr_mem_stats stats;
    hr_mem_get_stats(dev, &stats);
    assert_int_equal(stats.live_blocks, 0);
    hr_device_close(dev);
}

hr_tensor *op_f32(int ndim, const int64_t *shape, const float *values)
{
    hr_tensor *t;
    op_ok(hr_tensor_zeros(HR_F32, ndim, shape, &t));
    if (values)
        op_ok(hr_tensor_write(t, values, hr_tensor_bytes(t)));
    return t;
}

/* In place. */
static void round_all(float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = hr__bf16_wide(hr__bf16_near(v[i]));
}

static void write_real(hr_tensor *t, const float *values)
{
    int64_t n = hr_tensor_count(t);
    if (hr_tensor_dtype(t) == HR_F32) {
        op_ok(hr_tensor_write(t, values, hr_tensor_bytes(t)));
        return;
    }
    hr__bf16 *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = hr__bf16_near(values[i]);
    op_ok(hr_tensor_write(t, v, hr_tensor_bytes(t)));
    free(v);
}

hr_tensor *op_bf16(int ndim, const int64_t *shape, const float *values)
{
    hr_tensor *t;
    op_ok(hr_tensor_zeros(HR_BF16, ndim, shape, &t));
    if (values)
        write_real(t, values);
    return t;
}

float *op_contents(hr_tensor *t)
{
    int64_t n = hr_tensor_count(t);
    float *v = malloc((size_t)(n + 1) * sizeof *v);
    if (hr_tensor_dtype(t) == HR_F32) {
        op_ok(hr_tensor_read(t, v, hr_tensor_bytes(t)));
        return v;
    }
    assert_int_equal(hr_tensor_dtype(t), HR_BF16);
    hr__bf16 *narrow = malloc((size_t)(n + 1) * sizeof *narrow);
    op_ok(hr_tensor_read(t, narrow, hr_tensor_bytes(t)));
    for (int64_t i = 0; i < n; i++)
        v[i] = hr__bf16_wide(narrow[i]);
    free(narrow);
    return v;
}

hr_tensor *op_i32(int ndim, const int64_t *shape, const int32_t *values)
{
    hr_tensor *t;
    op_ok(hr_tensor_zeros(HR_I32, ndim, shape, &t));
    if (values)
        op_ok(hr_tensor_write(t, values, hr_tensor_bytes(t)));
    return t;
}

double op_random(uint64_t stream, uint64_t at)
{
    uint64_t z = (stream << 40) + at + 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    z ^= z >> 31;
    return (double)(z >> 11) / (double)(1ULL << 52) - 1.0;
}

static int64_t count_of(const struct op_input *in)
{
    int64_t n = 1;
    for (int i = 0; i < in->ndim; i++)
        n *= in->shape[i];
    return n;
}

static bool used(const op_check *c, int i)
{
    return i < OP_INPUTS && c->in[i].ndim > 0;
}

static float *values_of(const op_check *c, int i, bool bf16)
{
    int64_t n = count_of(&c->in[i]);
    double scale = c->in[i].scale != 0 ? c->in[i].scale : 1;
    float *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t k = 0; k < n; k++)
        v[k] = (float)(scale * op_random((uint64_t)i + 1, (uint64_t)k));
    if (bf16 && !c->in[i].f32)
        round_all(v, n);
    return v;
}

/* ---- one run of the operator ---- */
/* *leaf has the gradient; *given is what the operator gets. */
static void make_input(const struct op_input *in, const float *values,
                       const struct way *w, hr_tensor **leaf, hr_tensor **given)
{
    hr_dtype type = w->bf16 && !in->f32 ? HR_BF16 : HR_F32;
    size_t bytes = (size_t)count_of(in) * sizeof(float);
    if (w->where == INSIDE_A_STORAGE) {
        hr_storage *st;
        op_ok(hr_storage_create(hr_stream_current(), bytes + 64, &st));
        op_ok(hr_tensor_over(st, 12, type, in->ndim, in->shape, leaf));
        hr_storage_release(st);
    } else {
        op_ok(hr_tensor_create(type, in->ndim, in->shape, leaf));
    }
    write_real(*leaf, values);
    if (!in->constant)
        op_ok(hr_tensor_set_requires_grad(*leaf, true));
    if (w->where == BEHIND_A_VIEW)
        op_ok(hr_op_view(*leaf, in->ndim, in->shape, given));
    else
        *given = hr_tensor_retain(*leaf);
}

/* The gradient of `out`. */
static hr_tensor *seed_of(hr_tensor *out, const float *coefficients)
{
    int ndim = hr_tensor_ndim(out);
    const int64_t *shape = hr_tensor_shape(out);
    return hr_tensor_dtype(out) == HR_F32 ? op_f32(ndim, shape, coefficients)
                                          : op_bf16(ndim, shape, coefficients);
}

static void once_more(const op_check *c, hr_tensor **given, const float *coefficients)
{
    hr_tensor *out, *seed;
    op_ok(c->run(c->ctx, given, NULL, &out));
    seed = seed_of(out, coefficients);
    op_ok(hr_backward(&out, &seed, 1));
    hr_tensor_release(seed);
    hr_tensor_release(out);
}

static struct result run_way(const op_check *c, const struct way *w,
                             float *const *values, float *const *coefficients)
{
    struct result r = {0};
    hr_tensor *leaf[OP_INPUTS] = {0}, *given[OP_INPUTS] = {0}, *out, *seed;
    hr_wgrad_queue *queue = NULL;
    hr_device *dev = op_open(w->cores);
    for (int i = 0; used(c, i); i++)
        make_input(&c->in[i], values[i], w, &leaf[i], &given[i]);
    if (w->queue)
        op_ok(hr_wgrad_queue_create(&queue));
    for (int i = 0; i < w->more; i++)
        once_more(c, given, *coefficients);
    op_ok(c->run(c->ctx, given, queue, &out));
    r.count = hr_tensor_count(out);
    r.out = op_contents(out);
    r.type = hr_tensor_dtype(out);
    assert_true(hr_tensor_requires_grad(out));
    seed = seed_of(out, *coefficients);
    op_ok(hr_backward(&out, &seed, 1));
    if (queue && hr_wgrad_pending(queue))
        op_ok(hr_wgrad_run(queue));
    for (int i = 0; used(c, i); i++) {
        hr_tensor *grad = hr_tensor_grad(leaf[i]);
        if (c->in[i].constant) {
            assert_null(grad);
        } else {
            r.grad[i] = op_contents(grad);
            r.grad_type[i] = hr_tensor_dtype(grad);
        }
        hr_tensor_release(given[i]);
        hr_tensor_release(leaf[i]);
    }
    hr_tensor_release(seed);
    hr_tensor_release(out);
    hr_wgrad_queue_destroy(queue);
    op_close(dev);
    return r;
}

static void result_free(struct result *r)
{
    free(r->out);
    for (int i = 0; i < OP_INPUTS; i++)
        free(r->grad[i]);
}

/* ---- comparing ---- */
static double tolerance_of(const op_check *c, hr_dtype type)
{
    double tolerance = c->tolerance != 0 ? c->tolerance : 1e-5;
    return type == HR_BF16 ? 1.0 / 256 + tolerance : tolerance;
}

static double greatest(const double *v, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabs(v[i]) > most ? fabs(v[i]) : most;
    return most;
}

static void close_to(const char *what, int64_t at, double got, double want,
                     double allowed)
{
    if (!(fabs(got - want) <= allowed)) /* NaN too */
        fail_msg("%s [%lld] is %.9g, not %.9g (allowed: %.2g)", what, (long long)at,
                 got, want, allowed);
}

static void same_bits(const char *what, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0)
            fail_msg("%s [%lld]: %.9g and %.9g", what, (long long)i, (double)a[i],
                     (double)b[i]);
}

/* ---- the reference ---- */
struct reference {
    double *in[OP_INPUTS];
    double *out;
    int64_t count;
    const float *coefficients;
};

static double loss_of(const op_check *c, struct reference *f)
{
    double loss = c->reference(c->ctx, f->in, f->out);
    for (int64_t i = 0; i < f->count; i++)
        loss += f->out[i] * (double)f->coefficients[i];
    return loss;
}

static void check_gradient(const op_check *c, struct reference *f, int i,
                           const float *grad, double tolerance)
{
    int64_t n = count_of(&c->in[i]), samples = n < SAMPLES ? n : SAMPLES;
    double want[SAMPLES], step = 1e-4;
    char what[32];
    for (int64_t k = 0; k < samples; k++) {
        double *x = &f->in[i][k * n / samples], was = *x;
        *x = was + step;
        double above = loss_of(c, f);
        *x = was - step;
        want[k] = (above - loss_of(c, f)) / (2 * step);
        *x = was;
    }
    double allowed = tolerance * (1e-3 + greatest(want, samples));
    snprintf(what, sizeof what, "gradient %d", i);
    for (int64_t k = 0; k < samples; k++)
        close_to(what, k * n / samples, (double)grad[k * n / samples], want[k],
                 allowed);
}

static void check_reference(const op_check *c, const struct result *r,
                            float *const *values, const float *coefficients)
{
    double tolerance = tolerance_of(c, r->type);
    struct reference f = {.count = r->count, .coefficients = coefficients};
    f.out = calloc((size_t)r->count + 1, sizeof *f.out);
    for (int i = 0; used(c, i); i++) {
        int64_t n = count_of(&c->in[i]);
        f.in[i] = calloc((size_t)n + 1, sizeof *f.in[i]);
        for (int64_t k = 0; k < n; k++)
            f.in[i][k] = (double)values[i][k];
    }
    loss_of(c, &f);
    double allowed = tolerance * (1e-3 + greatest(f.out, r->count));
    for (int64_t k = 0; k < r->count; k++)
        close_to("output", k, (double)r->out[k], f.out[k], allowed);
    for (int i = 0; used(c, i); i++)
        if (!c->in[i].constant)
            check_gradient(c, &f, i, r->grad[i], tolerance_of(c, r->grad_type[i]));
    for (int i = 0; used(c, i); i++)
        free(f.in[i]);
    free(f.out);
}

/* Coefficients of the output in the loss, as many as any output here has. */
static float *make_coefficients(bool bf16)
{
    enum { MOST = 1 << 20 };
    float *v = malloc(MOST * sizeof *v);
    for (uint64_t i = 0; i < MOST; i++)
        v[i] = (float)op_random(99, i);
    if (bf16)
        round_all(v, MOST);
    return v;
}

/* A second microbatch adds to what the first one left. */
static void check_accumulation(const op_check *c, const struct result *first,
                               float *const *values, float *const *coefficients,
                               bool bf16)
{
    struct way twice = {"twice", 1, FRESH, false, 1, bf16};
    struct result r = run_way(c, &twice, values, coefficients);
    for (int i = 0; used(c, i); i++)
        for (int64_t k = 0; first->grad[i] && k < count_of(&c->in[i]); k++) {
            double want = 2 * (double)first->grad[i][k];
            close_to("gradient of two passes", k, (double)r.grad[i][k], want,
                     1e-6 + 1e-5 * fabs(want));
        }
    result_free(&r);
}

/* The first way against the reference, the others against the first. */
static void check_ways(const op_check *c, const struct way *ways, size_t n)
{
    bool bf16 = ways[0].bf16;
    float *values[OP_INPUTS] = {0}, *coefficients = make_coefficients(bf16);
    for (int i = 0; used(c, i); i++)
        values[i] = values_of(c, i, bf16);
    struct result first = run_way(c, &ways[0], values, &coefficients);
    check_reference(c, &first, values, coefficients);
    check_accumulation(c, &first, values, &coefficients, bf16);
    for (size_t w = 1; w < n; w++) {
        if (ways[w].queue && !c->queued)
            continue;
        struct result r = run_way(c, &ways[w], values, &coefficients);
        assert_int_equal(r.count, first.count);
        same_bits(ways[w].name, first.out, r.out, r.count);
        for (int i = 0; used(c, i); i++)
            if (first.grad[i])
                same_bits(ways[w].name, first.grad[i], r.grad[i], count_of(&c->in[i]));
        result_free(&r);
    }
    result_free(&first);
    for (int i = 0; used(c, i); i++)
        free(values[i]);
    free(coefficients);
}

void op_check_run(const op_check *c)
{
    static const struct way ways[] = {
        {"one core", 1, FRESH, false, 0, false},
        {"three cores", 3, FRESH, false, 0, false},
        {"inputs inside a storage", 1, INSIDE_A_STORAGE, false, 0, false},
        {"inputs behind a view", 2, BEHIND_A_VIEW, false, 0, false},
        {"queued weight gradients", 1, FRESH, true, 0, false},
        {"a queue, but no weight is a leaf", 1, BEHIND_A_VIEW, true, 0, false},
    };
    check_ways(c, ways, sizeof ways / sizeof *ways);
}

/* Not behind views, where gradients of weights are rounded on their way. */
void op_check_bf16(const op_check *c)
{
    static const struct way ways[] = {
        {"bf16", 1, FRESH, false, 0, true},
        {"bf16, three cores, inside a storage", 3, INSIDE_A_STORAGE, false, 0, true},
        {"bf16, queued weight gradients", 1, FRESH, true, 0, true},
    };
    check_ways(c, ways, sizeof ways / sizeof *ways);
}
