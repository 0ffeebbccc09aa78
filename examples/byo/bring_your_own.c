/* Bring your own: an engine that has memory, kernels and backward functions already, and takes from
 * Headrace what it lacks: pieces of work on two streams, in the right order, while the host is free.
 *
 *     x --[ scale, compute stream ]--> hidden --[ exchange, communication stream ]--> result
 *
 * Read from main() up. Nothing is copied on the way in or out. */
#include "engine_memory.h"
#include <headrace/headrace.h>

#define TRY(expr)                                                                      \
    do {                                                                               \
        hr_status st_ = (expr);                                                        \
        if (st_ < 0)                                                                   \
            return st_;                                                                \
    } while (0)

/* ---- the engine's kernel: out[i] = factor * in[i], or the other way round ------------------ */
typedef struct piece {
    float factor;
    bool reverse;
    buffer *output; /* of the node's forward; NULL: memory of Headrace */
} piece;

typedef struct move {
    const piece *how;
    float *out;
    const float *in;
} move;

static hr_status move_kernel(const void *args, hr_team *team)
{
    const move *m = args; /* a copy that the launch made */
    for (int i = 0; i < N; i++)
        m->out[i] = m->how->factor * m->in[m->how->reverse ? N - 1 - i : i];
    return HR_OK;
}

/* Onto the stream of the node that is running. The operands are what HEADRACE_CHECK=streams looks
 * at, which finds accesses that no event orders. */
static hr_status launch(const piece *how, hr_tensor *out, hr_tensor *in)
{
    move m = {how, hr_tensor_f32(out), hr_tensor_f32(in)};
    const hr_operand operands[] = {{m.out, sizeof(float[N]), HR_WRITE},
                                   {m.in, sizeof(float[N]), HR_READ}};
    return hr_launch(hr_stream_current(), "move", move_kernel, &m, sizeof m, operands,
                     2);
}

/* ---- a node: forward and backward of the engine --------------------------------------------- */
static hr_status forward(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    const piece *p = ctx;
    TRY(p->output ? hr_tensor_from_dlpack(lend(p->output), &out[0])
                  : hr_tensor_create(HR_F32, 1, (const int64_t[]){N}, &out[0]));
    *n_out = 1; /* the node takes the reference, whatever happens from here on */
    return launch(p, out[0], in[0]);
}

/* Leaves the gradient of the input where the node looks for it. `used` names what came from another
 * stream, so that its memory waits for this one. */
static hr_status backward(void *ctx, hr_node *node, hr_tensor *const *outputs,
                          hr_tensor *const *grads, int n, hr_tensor **used, int *n_used)
{
    hr_tensor *dx;
    TRY(hr_tensor_create(HR_F32, 1, (const int64_t[]){N}, &dx));
    used[(*n_used)++] = grads[0];
    hr_status st = launch(ctx, dx, grads[0]);
    if (st >= 0)
        st = hr_tensor_set_grad(hr_node_input(node, 0), dx); /* retains */
    hr_tensor_release(dx);
    return st;
}

static hr_status make_node(const char *name, piece *p, hr_stream *s, hr_event *e,
                           hr_node **out)
{
    hr_schedule_node_opts opts = {HR_INIT(hr_schedule_node_opts),
                                  .name = name,
                                  .forward = forward,
                                  .backward = backward,
                                  .ctx = p,
                                  .stream = s,
                                  .event = e};
    return hr_schedule_node_create(&opts, out);
}

/* ---- a step: forward through both, backward through both; two results for the engine ---------- */
static hr_status step(hr_node *const node[2], buffer *x, buffer *dz,
                      DLManagedTensor *out[2])
{
    hr_tensor *t, *const *y, *const *z, *dy[HR_NODE_MAX], *dx[HR_NODE_MAX];
    int n;
    TRY(hr_tensor_from_dlpack(lend(x), &t));
    TRY(hr_node_forward(node[0], &t, 1, &y, &n)); /* y is borrowed from the node */
    TRY(hr_node_forward(node[1], y, n, &z, &n));
    TRY(hr_tensor_to_dlpack(z[0], &out[0])); /* a claim of its own on z's bytes */
    hr_tensor_release(t);
    TRY(hr_tensor_from_dlpack(lend(dz), &t));
    TRY(hr_node_backward(node[1], &t, 1, dy, &n)); /* gradients are ours to release */
    TRY(hr_node_backward(node[0], dy, n, dx, &n));
    TRY(hr_tensor_to_dlpack(dx[0], &out[1]));
    hr_tensor_release(t);
    hr_tensor_release(dy[0]);
    hr_tensor_release(dx[0]);
    return hr_device_synchronize(hr_device_current()); /* the host's first wait */
}

static hr_status run(hr_device *dev, buffer *x, buffer *hidden, buffer *dz)
{
    piece scale = {3, false, hidden}, exchange = {1, true, NULL};
    hr_event *event; /* shared: each node waits for it, works, records it again */
    hr_node *node[2];
    DLManagedTensor *out[2];
    TRY(hr_set_streams(NULL,
                       true)); /* makes a communication stream, of high priority */
    TRY(hr_event_create(dev, &event));
    TRY(make_node("scale", &scale, hr_get_comp_stream(), event, &node[0]));
    TRY(make_node("exchange", &exchange, hr_get_comm_stream(), event, &node[1]));
    TRY(step(node, x, dz, out));
    for (int k = 0; k < 2; k++) { /* z and dx are 3 * what went in, reversed */
        const float *got = out[k]->dl_tensor.data;
        for (int i = 0; i < N; i++)
            if (got[i] != 3.0F * (float)(N - i))
                return hr_fail(HR_ERR_MISMATCH, NULL, "%d: [%d] is %g", k, i, got[i]);
        out[k]->deleter(out[k]);
        hr_node_destroy(node[k]);
    }
    hr_event_destroy(event);
    return hr_device_synchronize(dev); /* after this the buffers are back */
}

int main(void)
{
    buffer x = {.data = {1, 2, 3, 4, 5, 6, 7, 8}}, hidden = x, dz = x;
    hr_device *dev;
    hr_status st = hr_device_open("host", NULL, &dev);
    hr_device_set_current(dev);
    st = st < 0 ? st : run(dev, &x, &hidden, &dz);
    bool ok = st >= 0 && !x.lent && !hidden.lent && !dz.lent;
    puts(ok ? "the same bytes there and back" : hr_last_error());
    hr_device_close(dev);
    return ok ? 0 : 1;
}
