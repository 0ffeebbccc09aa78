/* pipeline_ranks MODE: four ranks with two stages each, of which rank 2 comes to grief in the second step, in the
 * forward of its stage 6 for microbatch 1. Each rank says how its job ended.
 *
 *     callback   it returns an error        kernel   what it has launched does
 *     memory     its device has no more     stop     it stops (SIGSTOP) */
#include "headrace/exec.h"
#include "headrace/group_mpi.h"
#include <signal.h>
#include <string.h>

enum { RANKS = 4, STAGES = 2 * RANKS, MICROBATCHES = 4, WIDTH = 64, GRIEF_STAGE = 6 };

typedef struct rank_state {
    const char *mode;
    int step;
} rank_state;

static hr_status failing_kernel(const void *args, hr_team *team)
{
    (void)args, (void)team;
    return hr_fail(HR_ERR_STATE, "kernel", "the kernel gives up");
}

static hr_status come_to_grief(const char *mode)
{
    void *all;
    if (strcmp(mode, "callback") == 0)
        return hr_fail(HR_ERR_STATE, "callback", "the callback gives up");
    if (strcmp(mode, "kernel") == 0)
        return hr_launch(hr_stream_current(), "grief", failing_kernel, NULL, 0, NULL,
                         0);
    if (strcmp(mode, "memory") == 0)
        return hr_mem_alloc(hr_stream_current(), 1 << 24, &all);
    raise(SIGSTOP);
    return HR_OK;
}

static hr_status put_out(hr_tensor **out)
{
    return hr_tensor_zeros(HR_F32, 1, (int64_t[]){WIDTH}, out);
}

static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    const rank_state *r = ctx;
    (void)in;
    hr_status st = HR_OK;
    if (r->step == 1 && at->stage == GRIEF_STAGE && at->microbatch == 1)
        st = come_to_grief(r->mode);
    return st < 0 || at->last ? st : put_out(out);
}

static hr_status backward(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                          hr_tensor **grad_in)
{
    (void)ctx, (void)grad;
    return at->first ? HR_OK : put_out(grad_in);
}

static hr_status run(hr_exec *e, rank_state *r, const hr_program *p)
{
    hr_status st = HR_OK;
    for (r->step = 0; r->step < 2 && st >= 0; r->step++) {
        st = hr_exec_step(e, p, NULL, NULL);
        if (st >= 0)
            st = hr_device_synchronize(hr_device_current());
    }
    return st;
}

static hr_status load_and_run(hr_exec *e, rank_state *r)
{
    hr_generate_opts sizes = {HR_INIT(hr_generate_opts), .ranks = RANKS, .chunks = 2,
                              .microbatches = MICROBATCHES};
    hr_schedule *s = NULL;
    hr_program *p = NULL;
    hr_status st = hr_schedule_generate("interleaved", &sizes, &s);
    if (st >= 0)
        st = hr_exec_load(e, s, &p);
    if (st >= 0)
        st = run(e, r, p);
    hr_program_destroy(p);
    hr_schedule_destroy(s);
    return st;
}

static hr_status work(hr_group *world, void *state)
{
    hr_exec_stage stages[2];
    hr_exec_shape shapes[STAGES] = {{0}};
    hr_exec *e;
    for (int i = 0; i < 2; i++)
        stages[i] = (hr_exec_stage){
            HR_INIT(hr_exec_stage), .stage = hr_group_rank(world) + i * RANKS,
            .ctx = state, .forward = forward, .backward = backward};
    for (int i = 1; i < STAGES; i++)
        shapes[i] = (hr_exec_shape){HR_F32, 1, {WIDTH}};
    hr_exec_opts opts = {HR_INIT(hr_exec_opts), .pp = world,      .stages = stages,
                         .n_stages = 2,         .shapes = shapes, .n_shapes = STAGES};
    hr_status st = hr_exec_create(&opts, &e);
    if (st >= 0)
        st = load_and_run(e, state);
    hr_exec_destroy(e);
    return st;
}

int main(int argc, char **argv)
{
    rank_state r = {.mode = argc > 1 ? argv[1] : "callback"};
    bool no_memory = strcmp(r.mode, "memory") == 0;
    hr_mpi_opts o = {
        HR_INIT(hr_mpi_opts), .timeout_s = 1,
        .device = {HR_INIT(hr_device_opts), .memory = no_memory ? (size_t)1 << 22 : 0}};
    hr_status st = hr_mpi_run(&o, work, &r);
    printf("ended: %s: %s\n", hr_status_name(st), st < 0 ? hr_last_error() : "");
    fflush(stdout);
    return hr_mpi_finish(st);
}
