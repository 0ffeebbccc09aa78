/* Seeded mistakes with memory: who frees it, when, and who forgot to say that it is used. */
#include "lab.h"

#include "toy_ops.h"

enum { BYTES = LAB_ROWS * TOY_WIDTH * (int)sizeof(float) };

static void *bytes_of(hr_tensor *t)
{
    return hr_tensor_data(t);
}

/* Freed while the communication stream still reads it. */
static hr_status premature_free(lab *l)
{
    static char host[BYTES];
    void *p;
    HR_TRY(hr_mem_alloc(l->compute, BYTES, &p));
    hr_mem_set_name(p, BYTES, "tokens");
    HR_TRY(hr_fill(l->compute, p, 0, BYTES));
    HR_TRY(lab_order(l, l->compute, l->comm));
    HR_TRY(hr_copy(l->comm, host, p, BYTES));
    if (l->right)
        hr_mem_record_stream(p, l->comm);
    hr_mem_free(p, l->compute);
    return HR_OK;
}

/* The address of an output, used when the node's backward has given the output up. */
static hr_status output_kept_past_its_release(lab *l)
{
    static lab_work work = {.output = "mlp output"};
    static char host[BYTES];
    hr_tensor *x, *y, *dy;
    hr_node *mlp;
    HR_TRY(lab_tensor(l, "x", &x));
    HR_TRY(lab_tensor(l, "dy", &dy));
    HR_TRY(lab_node(l, "mlp", l->compute, NULL, &work, &mlp));
    HR_TRY(lab_forward(mlp, x, &y));
    const void *kept = bytes_of(y);
    HR_TRY(l->right ? hr_copy(l->compute, host, kept, BYTES) : HR_OK);
    HR_TRY(lab_backward(l, mlp, dy));
    return l->right ? HR_OK : hr_copy(l->compute, host, kept, BYTES);
}

/* The node frees its input, which a third stream still reads. */
static hr_status free_input_that_is_not_marked(lab *l)
{
    static lab_work work = {.output = "sent", .free_input = true};
    static char host[BYTES];
    hr_tensor *hidden, *sent;
    hr_node *dispatch;
    HR_TRY(lab_tensor(l, "hidden", &hidden));
    HR_TRY(hr_tensor_set_requires_grad(hidden, false)); /* nothing is saved of it */
    HR_TRY(lab_node(l, "dispatch", l->comm, NULL, &work, &dispatch));
    HR_TRY(lab_order(l, l->compute, l->counts));
    HR_TRY(lab_order(l, l->compute, l->comm));
    HR_TRY(hr_copy(l->counts, host, bytes_of(hidden), BYTES));
    HR_TRY(l->right ? hr_tensor_record_stream(hidden, l->counts) : HR_OK);
    return lab_forward(dispatch, hidden, &sent);
}

/* 'combine' reads what 'pre' has set aside; its owner lets go of it. */
static hr_status side_tensor_that_is_not_marked(lab *l)
{
    lab_work work = {.output = "sum"};
    hr_tensor *x, *sum;
    hr_node *combine;
    HR_TRY(lab_tensor(l, "x", &x));
    HR_TRY(lab_tensor(l, "residual", &work.side));
    HR_TRY(lab_node(l, "combine", l->comm, l->event, &work, &combine));
    HR_TRY(hr_event_record(l->event, l->compute));
    HR_TRY(lab_forward(combine, x, &sum));
    HR_TRY(l->right ? hr_tensor_record_stream(work.side, l->comm) : HR_OK);
    hr_tensor_drop(work.side, l->compute);
    return HR_OK;
}

/* Given up at the position of a stream that is not behind the last write. */
static hr_status free_on_wrong_stream(lab *l)
{
    hr_tensor *t;
    HR_TRY(lab_tensor(l, "scratch", &t));
    HR_TRY(l->right ? lab_order(l, l->compute, l->comm) : HR_OK);
    hr_tensor_drop(t, l->comm);
    return HR_OK;
}

/* A fresh block belongs to its stream's work; another stream has to wait for it. */
static hr_status fresh_block_on_another_stream(lab *l)
{
    hr_tensor *before, *staging;
    HR_TRY(lab_tensor(l, "before", &before));
    HR_TRY(hr_tensor_create(HR_F32, 1, (int64_t[]){BYTES / 4}, &staging));
    l->kept[l->n_kept++] = staging;
    hr_tensor_set_name(staging, "staging");
    HR_TRY(l->right ? lab_order(l, l->compute, l->comm) : HR_OK);
    return hr_fill(l->comm, bytes_of(staging), 0, BYTES);
}

static hr_status fill_wrapped(hr_stream *s, void *p, const char *name,
                              void (*deleter)(void *, void *), hr_stream *user,
                              bool mark)
{
    hr_storage *st;
    hr_tensor *t;
    HR_TRY(hr_storage_wrap(s, p, BYTES, deleter, NULL, &st));
    hr_status done =
        hr_tensor_over(st, 0, HR_F32, 1, (int64_t[]){BYTES / sizeof(float)}, &t);
    if (done >= 0) {
        hr_tensor_set_name(t, name);
        done = hr_fill(user, p, 0, BYTES);
    }
    if (mark)
        hr_storage_record_stream(st, user);
    hr_tensor_release(t);
    hr_storage_release(st);
    return done;
}

/* The caller's own pool hands its memory from one stream to the other. */
static hr_status wrapped_block_handed_on_without_order(lab *l)
{
    static _Alignas(64) char pool[BYTES];
    HR_TRY(fill_wrapped(l->comm, pool, "received", NULL, l->comm, false));
    HR_TRY(l->right ? lab_order(l, l->comm, l->compute) : HR_OK);
    return fill_wrapped(l->compute, pool, "hidden", NULL, l->compute, false);
}

static void delete_nothing(void *ctx, void *ptr) {}

/* A deleter must wait for every stream, and knows those that were recorded. */
static hr_status deleter_that_misses_a_stream(lab *l)
{
    static _Alignas(64) char pool[BYTES];
    return fill_wrapped(l->compute, pool, "borrowed", delete_nothing, l->comm,
                        l->right);
}

/* Host memory between two streams is memory like any other. */
static hr_status host_buffer_between_streams(lab *l)
{
    static char host[BYTES];
    hr_tensor *from, *to;
    HR_TRY(lab_tensor(l, "from", &from));
    HR_TRY(lab_tensor(l, "to", &to));
    HR_TRY(lab_order(l, l->compute, l->comm));
    HR_TRY(hr_copy(l->comm, host, bytes_of(from), BYTES));
    HR_TRY(l->right ? lab_order(l, l->comm, l->compute) : HR_OK);
    return hr_copy(l->compute, bytes_of(to), host, BYTES);
}

/* Work that declares what it touches is seen whatever it does inside. */
static hr_status run_nothing(const void *args, hr_team *team)
{
    return HR_OK;
}

static hr_status declared_work_without_order(lab *l)
{
    hr_tensor *t;
    HR_TRY(lab_tensor(l, "logits", &t));
    hr_operand part = {(char *)bytes_of(t) + 16, 16, HR_READ_WRITE};
    HR_TRY(l->right ? lab_order(l, l->compute, l->counts) : HR_OK);
    return hr_launch(l->counts, "foreign kernel", run_nothing, NULL, 0, &part, 1);
}

#define BOTH "'compute'", "'communication'"

static const mistake table[] = {
    {"premature_free",
     premature_free,
     1,
     "unguarded_free",
     {"frees 'tokens'", "launch 'copy' on 'communication'", "may still read",
      "record_stream", BOTH}},
    {"output_kept_past_its_release",
     output_kept_past_its_release,
     1,
     "use_after_free",
     {"launch 'copy' on 'compute' reads 'mlp output'", "'mlp' backward", "freed"}},
    {"free_input_that_is_not_marked",
     free_input_that_is_not_marked,
     1,
     "unguarded_free",
     {"what follows 'dispatch' forward (layer 2, microbatch 3)", "frees 'hidden'",
      "launch 'copy' on 'counts'", "Record the stream 'counts'", "'communication'"}},
    {"side_tensor_that_is_not_marked",
     side_tensor_that_is_not_marked,
     1,
     "unguarded_free",
     {"frees 'residual'", "'combine' forward (layer 2, microbatch 3)",
      "Record the stream 'communication'", "'compute'"}},
    {"free_on_wrong_stream",
     free_on_wrong_stream,
     1,
     "unguarded_free",
     {"frees 'scratch'", "launch 'fill' on 'compute' may still write",
      "'communication' frees"}},
    {"fresh_block_on_another_stream",
     fresh_block_on_another_stream,
     1,
     "unordered_alloc",
     {"writes 'staging'", "allocated", "Record one on 'compute' after the allocation",
      BOTH}},
    {"wrapped_block_handed_on_without_order",
     wrapped_block_handed_on_without_order,
     1,
     "unordered",
     {"launch 'fill' on 'compute' writes 'hidden'", "launch 'fill' on 'communication'",
      "let 'compute' wait"}},
    {"deleter_that_misses_a_stream",
     deleter_that_misses_a_stream,
     1,
     "unordered",
     {"launch 'storage.delete' on 'compute'", "'borrowed'",
      "launch 'fill' on 'communication'"}},
    {"host_buffer_between_streams",
     host_buffer_between_streams,
     1,
     "unordered",
     {"launch 'copy' on 'compute' reads memory at", "launch 'copy' on 'communication'",
      "may still write"}},
    {"declared_work_without_order",
     declared_work_without_order,
     1,
     "unordered",
     {"launch 'foreign kernel' on 'counts' writes 'logits'",
      "launch 'fill' on 'compute'"}},
};

LAB_MAIN(table)
