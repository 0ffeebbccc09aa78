/* See toy_ops.h. One kernel serves all element-wise work: it is told what to compute. */
#include "toy_ops.h"

#include <time.h>

#include "base/try.h"

static _Thread_local toy_watch *watch;

void toy_watch_set(toy_watch *w)
{
    watch = w;
}

static long next_delay(void)
{
    if (watch == NULL || watch->delay_us == 0)
        return 0;
    watch->random = watch->random * 1664525U + 1013904223U;
    return (long)((watch->random >> 8) % (watch->delay_us + 1));
}

static void write_down(int tag)
{
    if (watch && watch->n < TOY_LOG)
        watch->log[watch->n++] = tag;
}

typedef enum what { SCALE, SCALE_W, BEND, BEND_BACK, ADD, SQUARES, TIMES } what;

typedef struct args {
    what what;
    long delay_us;
    int64_t n;
    const float *a, *b;
    float *out;
} args;

static hr_status kernel(const void *p, hr_team *team)
{
    const args *k = p;
    const float *a = k->a, *b = k->b;
    if (k->delay_us > 0)
        nanosleep(&(struct timespec){.tv_nsec = k->delay_us * 1000}, NULL);
    for (int64_t i = 0; i < k->n; i++) {
        switch (k->what) {
        case SCALE:
            k->out[i] = a[i] * b[i % TOY_WIDTH];
            break;
        case SCALE_W:
            k->out[i % TOY_WIDTH] += a[i] * b[i];
            break;
        case BEND:
            k->out[i] = a[i] + a[i] * a[i] * a[i] / 8;
            break;
        case BEND_BACK:
            k->out[i] = a[i] * (1 + 3 * b[i] * b[i] / 8);
            break;
        case ADD:
            k->out[i] = a[i] + b[i];
            break;
        case SQUARES:
            k->out[0] += a[i] * a[i] / 2;
            break;
        case TIMES:
            k->out[i] = a[i] * b[0];
            break;
        }
    }
    return HR_OK;
}

static hr_status run(what kind, hr_tensor *a, hr_tensor *b, hr_tensor *out)
{
    args k = {kind,
              next_delay(),
              hr_tensor_count(a),
              hr_tensor_f32(a),
              b ? hr_tensor_f32(b) : NULL,
              hr_tensor_f32(out)};
    hr_operand use[] = {{k.a, hr_tensor_bytes(a), HR_READ},
                        {k.out, hr_tensor_bytes(out), HR_READ_WRITE},
                        {k.b, b ? hr_tensor_bytes(b) : 0, HR_READ}};
    HR_TRY(hr_tensor_check(a, "toy"));
    HR_TRY(b ? hr_tensor_check(b, "toy") : HR_OK);
    return hr_launch(hr_stream_current(), "toy", kernel, &k, sizeof k, use, b ? 3 : 2);
}

/* A fresh tensor like `a`, computed. */
static hr_status map(what kind, hr_tensor *a, hr_tensor *b, hr_tensor **out)
{
    HR_TRY(hr_tensor_create(HR_F32, hr_tensor_ndim(a), hr_tensor_shape(a), out));
    hr_status st = run(kind, a, b, *out);
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

/* Ends function `fn` with the one output, whatever `st` was. */
static hr_status finish(hr_function *fn, hr_status st, hr_tensor **out)
{
    if (st < 0) {
        hr_function_abandon(fn);
        return st;
    }
    st = hr_function_finish(fn, out, 1);
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

/* ---- scale ---------------------------------------------------------------------------------- */
static hr_status scale_w(const hr_wgrad_item *it)
{
    hr_tensor *grad;
    HR_TRY(hr_grad_buffer(it->tensor[2], &grad));
    return run(SCALE_W, it->tensor[0], it->tensor[1], grad);
}

static hr_status scale_backward(hr_function *fn, hr_tensor *const *g, hr_tensor **dx)
{
    hr_wgrad_queue *queue = *(hr_wgrad_queue **)hr_function_ctx(fn);
    hr_wgrad_item item = {
        .run = scale_w,
        .tensor = {g[0], hr_function_saved(fn, 0), hr_function_input(fn, 1)},
        .name = "scale"};
    HR_TRY(queue ? hr_wgrad_push(queue, &item) : scale_w(&item));
    return hr_function_needs(fn, 0) ? map(SCALE, g[0], hr_function_input(fn, 1), &dx[0])
                                    : HR_OK;
}

static const hr_function_class scale_class = {
    .name = "scale", .ctx_bytes = sizeof(hr_wgrad_queue *), .backward = scale_backward};

hr_status toy_scale(hr_tensor *x, hr_tensor *w, hr_wgrad_queue *queue, hr_tensor **out)
{
    hr_function *fn;
    hr_tensor *in[] = {x, w};
    HR_TRY(hr_function_create(&scale_class, in, 2, &fn));
    hr_status st = hr_function_save(fn, x, NULL);
    if (fn)
        *(hr_wgrad_queue **)hr_function_ctx(fn) = queue;
    return finish(fn, st < 0 ? st : map(SCALE, x, w, out), out);
}

/* ---- bend, add, loss -------------------------------------------------------------------------- */
static hr_status bend_backward(hr_function *fn, hr_tensor *const *g, hr_tensor **dx)
{
    return map(BEND_BACK, g[0], hr_function_saved(fn, 0), &dx[0]);
}

static const hr_function_class bend_class = {.name = "bend", .backward = bend_backward};

hr_status toy_bend(hr_tensor *x, hr_tensor **out)
{
    hr_function *fn;
    HR_TRY(hr_function_create(&bend_class, &x, 1, &fn));
    hr_status st = hr_function_save(fn, x, NULL);
    return finish(fn, st < 0 ? st : map(BEND, x, NULL, out), out);
}

static hr_status add_backward(hr_function *fn, hr_tensor *const *g, hr_tensor **dx)
{
    dx[0] = hr_tensor_retain(g[0]);
    dx[1] = hr_tensor_retain(g[0]);
    return HR_OK;
}

static const hr_function_class add_class = {.name = "add", .backward = add_backward};

hr_status toy_add(hr_tensor *a, hr_tensor *b, hr_tensor **out)
{
    hr_function *fn;
    hr_tensor *in[] = {a, b};
    HR_TRY(hr_function_create(&add_class, in, 2, &fn));
    return finish(fn, map(ADD, a, b, out), out);
}

static hr_status loss_backward(hr_function *fn, hr_tensor *const *g, hr_tensor **dx)
{
    return map(TIMES, hr_function_saved(fn, 0), g[0], &dx[0]);
}

static const hr_function_class loss_class = {.name = "loss", .backward = loss_backward};

hr_status toy_loss(hr_tensor *y, hr_tensor **out)
{
    hr_function *fn;
    HR_TRY(hr_function_create(&loss_class, &y, 1, &fn));
    hr_status st = hr_function_save(fn, y, NULL);
    if (st >= 0)
        st = hr_tensor_zeros(HR_F32, 1, (int64_t[]){1}, out);
    return finish(fn, st < 0 ? st : run(SQUARES, y, NULL, *out), out);
}

/* ---- exchange ----------------------------------------------------------------------------------- */
typedef struct exchange_ctx {
    hr_group *group;
    int tag;
} exchange_ctx;

static hr_status exchange(hr_group *group, hr_tensor *x, int tag, hr_tensor **out)
{
    int64_t counts[16];
    int size = hr_group_size(group);
    for (int r = 0; r < size; r++)
        counts[r] = hr_tensor_count(x) / size;
    write_down(tag);
    HR_TRY(hr_tensor_check(x, "exchange"));
    HR_TRY(hr_tensor_create(HR_F32, hr_tensor_ndim(x), hr_tensor_shape(x), out));
    return hr_all_to_all_v(group, hr_tensor_data(x), counts, hr_tensor_data(*out),
                           counts, sizeof(float), hr_stream_current());
}

static hr_status exchange_backward(hr_function *fn, hr_tensor *const *g, hr_tensor **dx)
{
    const exchange_ctx *c = hr_function_ctx(fn);
    return exchange(c->group, g[0], -c->tag, &dx[0]);
}

static const hr_function_class exchange_class = {.name = "exchange",
                                                 .ctx_bytes = sizeof(exchange_ctx),
                                                 .backward = exchange_backward};

hr_status toy_exchange(hr_group *group, hr_tensor *x, int tag, hr_tensor **out)
{
    hr_function *fn;
    HR_TRY(hr_function_create(&exchange_class, &x, 1, &fn));
    if (fn)
        *(exchange_ctx *)hr_function_ctx(fn) = (exchange_ctx){group, tag};
    return finish(fn, exchange(group, x, tag, out), out);
}
