/* Schedule nodes and noop nodes: making them, asking them, taking them apart. What they do is
 * in node_run.c. */
#include "pipeline/node.h"

#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "tensor/claim.h"
#include "tensor/pool.h"

void hr__node_init(hr_node *node, const hr_schedule_node_opts *opts,
                   const hr__node_names *names)
{
    memset(node, 0, sizeof *node);
    node->opts = *opts;
    node->names = *names;
    node->stream = opts->stream;
    node->layer = node->microbatch = -1;
}

void hr__node_init_noop(hr_node *node)
{
    memset(node, 0, sizeof *node);
    node->noop = true;
    node->names.name = "noop";
}

/* At the node's position in its stream: whoever gave the input may give it up next, at its home's,
 * while this stream still reads. */
void hr__node_drop_inputs(hr_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] == NULL)
            continue;
        if (hr_tensor_refs(node->in[i]) == 1)
            hr__tensor_unclaim(node->in[i], node->stream);
        hr_tensor_release(node->in[i]);
    }
    node->n_in = 0;
    node->has_inputs = false;
}

void hr__node_drop_outputs(hr_node *node)
{
    for (int i = 0; i < node->n_out; i++)
        hr_tensor_release(node->out[i]);
    node->n_out = 0;
}

void hr__node_release_state(hr_node *node)
{
    hr__node_drop_outputs(node);
    hr__node_drop_inputs(node);
    node->spent = true;
}

void hr__node_fini(hr_node *node)
{
    if (!node->noop) {
        hr__node_drop_outputs(node);
        hr__node_drop_inputs(node);
    }
}

hr_status hr_node_release(hr_node *node)
{
    if (node->noop)
        return HR_OK;
    if (node->spent)
        return hr_fail(HR_ERR_STATE, "spent", "node '%s': released already",
                       node->names.name);
    hr__node_release_state(node);
    return HR_OK;
}

static const char *interned(const char *name, const char *what)
{
    char buf[256];
    snprintf(buf, sizeof buf, "%s %s", name, what);
    return hr_intern(buf);
}

static size_t node_bytes(int n_wgrads)
{
    return sizeof(hr_node) + (size_t)n_wgrads * sizeof(hr_node_wgrad);
}

hr_status hr_schedule_node_create(const hr_schedule_node_opts *opts, hr_node **out)
{
    *out = NULL;
    if (opts == NULL || opts->forward == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "hr_schedule_node_create: no forward function");
    HR_CHECK_OPTS(opts, hr_schedule_node_opts);
    if (opts->n_wgrads < 0 || (opts->n_wgrads > 0 && opts->wgrads == NULL))
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "hr_schedule_node_create: %d weight gradients, list %s",
                       opts->n_wgrads, opts->wgrads ? "given" : "missing");
    hr_node *node = hr__pool_get(node_bytes(opts->n_wgrads));
    const char *name = hr_intern(opts->name ? opts->name : "schedule_node");
    if (node == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "node '%s': no memory for it", name);
    hr__node_init(node, opts,
                  &(hr__node_names){name, interned(name, "forward"),
                                    interned(name, "backward"),
                                    interned(name, "wgrad")});
    if (opts->n_wgrads > 0)
        node->opts.wgrads = memcpy(node + 1, opts->wgrads,
                                   (size_t)opts->n_wgrads * sizeof *opts->wgrads);
    *out = node;
    return HR_OK;
}

hr_status hr_noop_node_create(hr_node **out)
{
    *out = hr__pool_get(node_bytes(0));
    if (*out == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "noop node: no memory for it");
    hr__node_init_noop(*out);
    return HR_OK;
}

void hr_node_destroy(hr_node *node)
{
    if (node == NULL)
        return;
    hr__node_fini(node);
    hr__pool_put(node, node_bytes(node->opts.n_wgrads));
}

void hr_node_set_mark(hr_node *node, int layer, int microbatch)
{
    node->layer = layer;
    node->microbatch = microbatch;
}

const char *hr_node_name(const hr_node *node)
{
    return node->names.name;
}

hr_status hr_node_get_output(hr_node *node, hr_tensor *const **out, int *n)
{
    *out = NULL;
    *n = 0;
    if (node->spent)
        return HR_OK;
    if (!node->has_output)
        return hr_fail(HR_ERR_STATE, "no_output",
                       "node '%s': no forward has finished, so there is no output",
                       node->names.name);
    *out = node->out;
    *n = node->n_out;
    return HR_OK;
}

hr_status hr_node_get_grad(hr_node *node, hr_tensor **grads, int *n)
{
    *n = 0;
    if (!node->has_inputs)
        return hr_fail(HR_ERR_STATE, "no_inputs",
                       "node '%s': %s, so there are no gradients", node->names.name,
                       node->spent ? "its backward has run" : "no inputs are stored");
    for (int i = 0; i < node->n_in; i++)
        grads[i] = node->in[i] ? hr_tensor_grad(node->in[i]) : NULL;
    *n = node->n_in;
    return HR_OK;
}

int hr_node_inputs(const hr_node *node)
{
    return node->n_in;
}

hr_tensor *hr_node_input(const hr_node *node, int i)
{
    return i >= 0 && i < node->n_in ? node->in[i] : NULL;
}

bool hr_node_spent(const hr_node *node)
{
    return node->spent;
}

hr_stream *hr_node_stream(const hr_node *node)
{
    return node->stream;
}
