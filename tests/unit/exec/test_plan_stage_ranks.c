/* Stages made of plans under the executor, over pipeline ranks and, beside them, ranks that exchange
 * tokens: each schedule gives the gradients of the model without pipeline, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/try.h"
#include "stage_rig.h"

enum { MAX_RANKS = 4, MAX_EP = 2, MAX_STAGES = 8, STEPS = 3 };

typedef struct job {
    const char *schedule;
    int pp, chunks, ep;
    bool merge; /* neighbours into pairs */
    hr_plan_stage_opts how;
} job;

#define JOB(s, p, c, e) .schedule = s, .pp = p, .chunks = c, .ep = e
static const job jobs[] = {
    {JOB("1f1b", 2, 1, 1), .how = {.serial = true}},
    {JOB("1f1b", 4, 1, 1), .how = {.delay_wgrad = true}},
    {JOB("1f1b", 2, 1, 2), .how = {.recompute = true}},
    {JOB("1f1b", 4, 1, 1), .merge = true},
    {JOB("interleaved", 2, 2, 2)},
    {JOB("combined", 2, 2, 1)},
    {JOB("combined", 2, 2, 2), .how = {.delay_wgrad = true}},
    {JOB("combined", 4, 2, 1), .how = {.delay_wgrad = true}},
    {JOB("combined", 2, 2, 1), .how = {.serial = true}},
    {JOB("combined", 2, 2, 2), .how = {.delay_wgrad = true, .recompute = true}},
    {JOB("zb-h1", 2, 1, 2)},
    {JOB("zb-h1", 4, 1, 1), .how = {.recompute = true}},
    {JOB("zbv", 2, 2, 2)},
    {JOB("dualpipev", 2, 2, 2)},
    {JOB("forward-only", 2, 2, 2)},
};

/* What one rank has at the end. */
typedef struct outcome {
    toy_result got[STEPS];
    size_t live[STEPS], peak[STEPS];
} outcome;

typedef struct work {
    const job *job;
    hr_schedule *schedule;
    outcome rank[MAX_RANKS];
} work;

static toy_result plain[MAX_EP + 1][MAX_EP]; /* [ep][rank in it] */

/* ---- the model without pipeline ---------------------------------------------------------------- */
static hr_status without_pipeline(hr_group *world, void *arg)
{
    toy_model m;
    HR_TRY(toy_model_init(&m, world, true));
    HR_TRY(toy_step(&m, &(toy_step_opts){.overlap = false},
                    &plain[hr_group_size(world)][hr_group_rank(world)]));
    toy_model_fini(&m);
    return HR_OK;
}

static void run_ranks(int n, hr_rank_fn fn, void *arg)
{
    if (hr_local_run(n, NULL, fn, arg) < 0)
        fail_msg("%s", hr_last_error());
}

static int run_plain(void **state)
{
    run_ranks(1, without_pipeline, NULL);
    run_ranks(2, without_pipeline, NULL);
    return 0;
}

/* ---- one rank under the executor ----------------------------------------------------------------- */
/* Rank r of the world is stage rank r / ep, and number r % ep of those that exchange. */
static hr_status make_groups(hr_group *world, const job *j, hr_group **pp,
                             hr_group **ep)
{
    for (int k = 0; k < j->pp + j->ep; k++) {
        bool across = k < j->ep;
        int ranks[MAX_RANKS], n = across ? j->pp : j->ep;
        hr_group *g;
        for (int i = 0; i < n; i++)
            ranks[i] = across ? i * j->ep + k : (k - j->ep) * j->ep + i;
        HR_TRY(hr_group_create(world, ranks, n, &g));
        if (g)
            *(across ? pp : ep) = g;
    }
    return HR_OK;
}

static hr_status open_stages(const work *w, int pp_rank, toy_model *m, stage_rig *rig)
{
    hr_schedule_shape shape;
    int mine[RIG_STAGES], n = 0;
    hr_schedule_get_shape(w->schedule, &shape);
    for (int s = 0; s < shape.stages; s++)
        if (hr_schedule_rank_of(w->schedule, s, 0) == pp_rank)
            mine[n++] = s;
    return stage_rig_open(rig, m, &w->job->how, mine, n, shape.stages);
}

static hr_status create(const work *w, hr_group *world, hr_group *pp, stage_rig *rig,
                        hr_exec **e)
{
    hr_exec_stage stages[RIG_STAGES];
    hr_exec_shape shapes[MAX_STAGES];
    for (int i = 0; i < rig->n; i++)
        stages[i] = *rig->side[i].fns;
    for (int s = 0; s < MAX_STAGES; s++)
        shapes[s] = (hr_exec_shape){HR_F32, 2, {TOY_ROWS, TOY_WIDTH}};
    return hr_exec_create(&(hr_exec_opts){HR_INIT(hr_exec_opts), .pp = pp,
                                          .world = world, .stages = stages,
                                          .n_stages = rig->n, .shapes = shapes,
                                          .n_shapes = w->job->pp * w->job->chunks},
                          e);
}

static hr_status steps(const work *w, hr_exec *e, stage_rig *rig, outcome *o)
{
    hr_program *p;
    hr_mem_stats mem;
    hr_device *dev = hr_device_current();
    HR_TRY(hr_exec_load(e, w->schedule, &p));
    for (int i = 0; i < STEPS; i++) {
        HR_TRY(stage_rig_begin(rig));
        hr_mem_reset_peak(dev);
        HR_TRY(hr_exec_step(e, p, NULL, NULL));
        HR_TRY(stage_rig_read(rig, &o->got[i]));
        hr_mem_get_stats(dev, &mem);
        o->live[i] = mem.live_bytes;
        o->peak[i] = mem.peak_bytes;
    }
    hr_program_destroy(p);
    return HR_OK;
}

static hr_status each_rank(hr_group *world, void *arg)
{
    work *w = arg;
    hr_group *pp = NULL, *ep = NULL;
    toy_model m;
    stage_rig rig;
    hr_exec *e;
    HR_TRY(make_groups(world, w->job, &pp, &ep));
    HR_TRY(toy_model_init(&m, ep, true));
    HR_TRY(open_stages(w, hr_group_rank(pp), &m, &rig));
    HR_TRY(create(w, world, pp, &rig, &e));
    HR_TRY(steps(w, e, &rig, &w->rank[hr_group_rank(world)]));
    hr_exec_destroy(e);
    stage_rig_close(&rig);
    toy_model_fini(&m);
    hr_group_release(pp);
    hr_group_release(ep);
    return HR_OK;
}

/* ---- the test ------------------------------------------------------------------------------------- */
static hr_status make_schedule(const job *j, hr_schedule **out)
{
    hr_generate_opts sizes = {HR_INIT(hr_generate_opts), .ranks = j->pp,
                              .chunks = j->chunks, .microbatches = TOY_MICROBATCHES};
    hr_schedule *s;
    int pairs = 0;
    HR_TRY(hr_schedule_generate(j->schedule, &sizes, j->merge ? &s : out));
    if (!j->merge)
        return HR_OK;
    hr_status st = hr_schedule_merge_pairs(s, out, &pairs);
    hr_schedule_destroy(s);
    return st < 0 || pairs > 0 ? st : HR_ERR_STATE;
}

/* Each weight and loss is on one rank of the pipeline, and zero on the others. */
static toy_result gathered(const work *w, int step, int ep_rank)
{
    toy_result all = {0};
    for (int p = 0; p < w->job->pp; p++) {
        const toy_result *r = &w->rank[p * w->job->ep + ep_rank].got[step];
        for (int i = 0; i < TOY_MICROBATCHES; i++)
            all.loss[i] += r->loss[i];
        for (int i = 0; i < TOY_WEIGHTS * TOY_WIDTH; i++)
            all.grad[i] += r->grad[i];
    }
    return all;
}

static void compare(const work *w, int at)
{
    const job *j = w->job;
    for (int i = 0; i < STEPS; i++) {
        for (int r = 0; r < j->ep; r++) {
            toy_result want = plain[j->ep][r], got = gathered(w, i, r);
            if (strcmp(j->schedule, "forward-only") == 0)
                memset(want.grad, 0, sizeof want.grad);
            if (memcmp(&want, &got, sizeof want) != 0)
                fail_msg("job %d (%s, %d ranks): step %d, rank %d differs", at,
                         j->schedule, j->pp, i, r);
        }
        for (int r = 0; i > 1 && r < j->pp * j->ep; r++) {
            assert_int_equal(w->rank[r].live[i], w->rank[r].live[1]);
            assert_int_equal(w->rank[r].peak[i], w->rank[r].peak[1]);
        }
    }
}

static void every_schedule_equals_the_model_without_pipeline_to_the_bit(void **state)
{
    static work w;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        memset(&w, 0, sizeof w);
        w.job = &jobs[i];
        if (make_schedule(w.job, &w.schedule) < 0)
            fail_msg("job %zu: %s", i, hr_last_error());
        run_ranks(w.job->pp * w.job->ep, each_rank, &w);
        compare(&w, (int)i);
        hr_schedule_destroy(w.schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_equals_the_model_without_pipeline_to_the_bit),
    };
    return cmocka_run_group_tests(tests, run_plain, NULL);
}
