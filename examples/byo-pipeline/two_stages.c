/* Bring your own pipeline: y = v * x on one rank, z = w * y on the next, a weight a column, trained
 * until z is 6 * x. Kernels, weights and update are the engine's; the schedule (zero bubble: gradients
 * of inputs first, those of weights where there is time), the transfers and their order are
 * Headrace's. Read from main() up. */
#include <headrace/headrace.h>

enum { WIDTH = 8, ROWS = 64, ALL = ROWS * WIDTH, MICROBATCHES = 8, STEPS = 60 };

#define TRY(expr)                                                                      \
    do {                                                                               \
        hr_status st_ = (expr);                                                        \
        if (st_ < 0)                                                                   \
            return st_;                                                                \
    } while (0)

/* ---- the engine: the layer of a rank, and its kernels ----------------------------------------- */
static const int64_t shape[] = {ROWS, WIDTH};

typedef struct layer {
    float w[WIDTH], dw[WIDTH];
    hr_tensor *x[MICROBATCHES], *dy[MICROBATCHES]; /* until the weight gradient */
} layer;

typedef struct work {
    layer *l;
    float *out;
    const float *in;
    int microbatch;
    bool last;
} work;

/* The forward, and the input gradient as well. No input: the data. Last rank: minus what is wanted. */
static hr_status multiply(const void *args, hr_team *team)
{
    const work *k = args;
    for (int i = 0; i < ALL; i++) {
        float x = (float)((k->microbatch + 3 * i) % 7 - 3) / 4;
        k->out[i] = k->in ? k->l->w[i % WIDTH] * k->in[i] - (k->last ? 6 * x : 0) : x;
    }
    return HR_OK;
}

static hr_status add_weight_gradient(const void *args, hr_team *team)
{
    const work *k = args;
    for (int i = 0; i < ALL; i++)
        k->l->dw[i % WIDTH] += k->out[i] * k->in[i];
    return HR_OK;
}

/* Onto the compute stream. The operands are what HEADRACE_CHECK=streams looks at. */
static hr_status issue(hr_kernel kernel, work k, hr_tensor *out, hr_tensor *in)
{
    k.out = hr_tensor_f32(out);
    k.in = in ? hr_tensor_f32(in) : NULL;
    const hr_operand used[] = {
        {k.out, sizeof(float[ALL]), kernel == multiply ? HR_WRITE : HR_READ},
        {k.in, sizeof(float[ALL]), HR_READ}};
    return hr_launch(hr_stream_current(), "layer", kernel, &k, sizeof k, used,
                     in ? 2 : 1);
}

/* ---- what the executor asks for ---------------------------------------------------------------- */
static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    layer *l = ctx;
    work k = {.l = l, .microbatch = at->microbatch, .last = at->last};
    hr_tensor **x = &l->x[at->microbatch];
    *x = in ? hr_tensor_retain(in) : NULL;
    if (at->first) {
        TRY(hr_tensor_create(HR_F32, 2, shape, x));
        TRY(issue(multiply, k, *x, NULL));
    }
    out = at->last ? &l->dy[at->microbatch] : out;
    TRY(hr_tensor_create(HR_F32, 2, shape, out));
    return issue(multiply, k, *out, *x);
}

static hr_status input_grad(void *ctx, const hr_exec_at *at, hr_tensor *dy,
                            hr_tensor **dx)
{
    layer *l = ctx;
    if (!at->last)
        l->dy[at->microbatch] = hr_tensor_retain(dy);
    if (at->first)
        return HR_OK;
    TRY(hr_tensor_create(HR_F32, 2, shape, dx));
    return issue(multiply, (work){.l = l}, *dx, l->dy[at->microbatch]);
}

static hr_status weight_grad(void *ctx, const hr_exec_at *at)
{
    layer *l = ctx;
    hr_tensor *x = l->x[at->microbatch], *dy = l->dy[at->microbatch];
    TRY(issue(add_weight_gradient, (work){.l = l}, dy, x));
    hr_tensor_release(x); /* freed behind what was issued */
    hr_tensor_release(dy);
    return HR_OK;
}

/* ---- a rank -------------------------------------------------------------------------------------- */
static hr_status steps(layer *l, hr_exec *e, const hr_program *p)
{
    for (int step = 0; step < STEPS; step++) {
        TRY(hr_exec_step(e, p, NULL, NULL)); /* all microbatches, issued */
        TRY(hr_device_synchronize(hr_device_current()));
        for (int j = 0; j < WIDTH; j++) {
            l->w[j] -= l->dw[j] / (20 * ROWS);
            l->dw[j] = 0;
        }
    }
    return HR_OK;
}

static hr_status train(hr_group *world, void *layers)
{
    int rank = hr_group_rank(world);
    hr_exec_stage stage = {HR_INIT(hr_exec_stage),        .stage = rank,
                           .ctx = (layer *)layers + rank, .forward = forward,
                           .input_grad = input_grad,      .weight_grad = weight_grad};
    const hr_exec_shape shapes[] = {{0}, {HR_F32, 2, {ROWS, WIDTH}}};
    hr_generate_opts sizes = {HR_INIT(hr_generate_opts), .ranks = 2,
                              .microbatches = MICROBATCHES};
    hr_exec_opts opts = {HR_INIT(hr_exec_opts), .pp = world,      .stages = &stage,
                         .n_stages = 1,         .shapes = shapes, .n_shapes = 2};
    hr_schedule *s;
    hr_exec *e;
    hr_program *p;
    TRY(hr_schedule_generate("zb-h1", &sizes, &s));
    TRY(hr_exec_create(&opts, &e));
    TRY(hr_exec_load(e, s, &p)); /* checked: it cannot deadlock */
    TRY(steps(stage.ctx, e, p));
    hr_program_destroy(p);
    hr_exec_destroy(e);
    hr_schedule_destroy(s);
    return HR_OK;
}

int main(void)
{
    layer l[2] = {{.w = {1, 1, 1, 1, 1, 1, 1, 1}}, {.w = {2, 2, 2, 2, 2, 2, 2, 2}}};
    hr_status st = hr_local_run(2, NULL, train, l);
    float v = l[0].w[3], w = l[1].w[3];
    printf("%g * %g = %g\n%s", v, w, v * w, st < 0 ? hr_last_error() : "");
    return st < 0 || v * w < 5.999F || v * w > 6.001F;
}
