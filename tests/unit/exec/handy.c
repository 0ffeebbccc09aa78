/* The handy model: its pipelines, and what must come out of a step; see handy.h. */
#include "unit/exec/handy.h"
#include "base/try.h"

#include <string.h>

float handy_weight(int stage)
{
    static const float first[] = {2, 3, 5, 7}, then[] = {1, -1, 2};
    return stage < 4 ? first[stage] : then[(stage - 4) % 3];
}

/* ---- a rank ------------------------------------------------------------------------------------ */
static hr_status make_pipelines(handy *h)
{
    int ranks[64], p = hr_group_size(h->world) / h->lines;
    for (int line = 0; line < h->lines; line++) {
        hr_group *g;
        for (int r = 0; r < p; r++)
            ranks[r] = r * h->lines + line;
        HR_TRY(hr_group_create(h->world, ranks, p, &g));
        if (g)
            h->pp = g;
    }
    return HR_OK;
}

hr_status handy_init(handy *h, hr_group *world, int tp, int dp)
{
    hr_stream *s = hr_stream_current();
    void *there;
    *h = (handy){
        .world = world, .dp = dp, .lines = tp * dp, .fail_kind = HR_ACTION_RECV_B};
    h->line = hr_group_rank(world) % h->lines;
    HR_TRY(make_pipelines(h));
    for (int m = 0; m < HANDY_MICROBATCHES; m++) {
        h->length[m] = 2;
        h->tokens[m] = m % 4 < 2 ? 1 : 2 * (m % 4 - 1); /* 1 1 2 4: means are exact */
    }
    HR_TRY(
        hr_mem_alloc(s, (HANDY_STAGES + HANDY_MICROBATCHES) * sizeof(float), &there));
    h->dx = there;
    for (int i = 0; i < HANDY_STAGES; i++)
        h->stage[i] =
            (handy_stage){.h = h, .stage = i, .dw = h->dx + HANDY_MICROBATCHES + i};
    return hr_set_streams(NULL, false);
}

void handy_fini(handy *h)
{
    for (int i = 0; i < HANDY_STAGES; i++)
        handy_drop(&h->stage[i]);
    hr_exec_destroy(h->e);
    hr_mem_free(h->dx, NULL);
    hr_group_release(h->pp);
}

static bool runs_here(const handy *h, const hr_schedule *s, int stage,
                      const hr_schedule_shape *shape)
{
    for (int m = 0; m < shape->microbatches; m++)
        if (hr_schedule_rank_of(s, stage, m) == hr_group_rank(h->pp))
            return true;
    return false;
}

static hr_status open_executor(handy *h, const hr_schedule_shape *shape)
{
    hr_exec_stage stage[HANDY_STAGES];
    hr_exec_shape shapes[HANDY_STAGES];
    for (int i = 0; i < h->n_mine; i++)
        stage[i] = handy_functions(h, h->mine[i]);
    for (int i = 0; i < HANDY_STAGES; i++)
        shapes[i] = (hr_exec_shape){HR_F32, 1, {h->length[0]}};
    hr_exec_destroy(h->e);
    h->e = NULL;
    h->stages = shape->stages;
    return hr_exec_create(&(hr_exec_opts){HR_INIT(hr_exec_opts), .pp = h->pp,
                                          .world = h->world, .dp = h->dp,
                                          .stages = stage, .n_stages = h->n_mine,
                                          .shapes = h->vary ? NULL : shapes,
                                          .n_shapes = h->vary ? 0 : shape->stages},
                          &h->e);
}

hr_status handy_load(handy *h, const hr_schedule *s, hr_program **out)
{
    hr_schedule_shape shape;
    int n = 0, mine[HANDY_STAGES];
    hr_schedule_get_shape(s, &shape);
    for (int i = 0; i < shape.stages; i++)
        if (runs_here(h, s, i, &shape))
            mine[n++] = i;
    /* Any rank's change is one of all: a placement differs on all but the middle. */
    int64_t differs = !h->e || h->stages != shape.stages || n != h->n_mine ||
                      memcmp(mine, h->mine, (size_t)n * sizeof *mine) != 0;
    HR_TRY(hr_all_reduce(h->world, &differs, &differs, 1, HR_I64, HR_MAX,
                         hr_stream_current()));
    HR_TRY(hr_stream_synchronize(hr_stream_current()));
    if (differs) {
        h->n_mine = n;
        memcpy(h->mine, mine, (size_t)n * sizeof *mine);
        HR_TRY(open_executor(h, &shape));
    }
    return hr_exec_load(h->e, s, out);
}

hr_status handy_generate(handy *h, const char *name, int chunks, int microbatches,
                         hr_schedule **s, hr_program **out)
{
    *out = NULL;
    HR_TRY(hr_schedule_generate(
        name,
        &(hr_generate_opts){HR_INIT(hr_generate_opts), .ranks = hr_group_size(h->pp),
                            .chunks = chunks, .microbatches = microbatches},
        s));
    hr_status st = handy_load(h, *s, out);
    if (st < 0) {
        hr_schedule_destroy(*s);
        *s = NULL;
    }
    return st;
}

/* ---- what must come out ------------------------------------------------------------------------ */
hr_status handy_zero(handy *h)
{
    h->paired = h->live = h->peak = h->places = h->n_log = 0;
    for (int i = 0; i < HANDY_STAGES; i++) {
        handy_stage *s = &h->stage[i];
        s->reductions = 0;
        s->reduced = false;
        memset(s->wgrads, 0, sizeof s->wgrads);
    }
    return hr_fill(hr_stream_current(), h->dx, 0,
                   (HANDY_STAGES + HANDY_MICROBATCHES) * sizeof(float));
}

static double scale_of(const handy *h, int m, int microbatches, hr_loss_mode mode)
{
    int64_t all = 0;
    for (int i = 0; i < microbatches; i++)
        all += h->tokens[i];
    if (mode == HR_LOSS_MEAN_TOKEN)
        return 1.0 / (double)(all * h->dp);
    if (mode == HR_LOSS_MEAN_MICROBATCH)
        return 1.0 / (double)(h->tokens[m] * microbatches * h->dp);
    return 1;
}

static hr_status compare(const handy *h, const float *got,
                         const hr_schedule_shape *shape, hr_loss_mode mode)
{
    double product = 1, all = 0;
    for (int i = 0; i < shape->stages; i++)
        product *= handy_weight(i);
    for (int m = 0; m < shape->microbatches; m++) {
        double dx =
            product * scale_of(h, m, shape->microbatches, mode) * handy_length(h, m);
        all += dx * (m + 1);
        if (got[m] != (float)dx)
            return hr_fail(HR_ERR_MISMATCH, "dx", "dx of %d is %g, not %g", m, got[m],
                           dx);
    }
    for (int i = 0; i < shape->stages; i++)
        if (got[HANDY_MICROBATCHES + i] != (float)(all / handy_weight(i)))
            return hr_fail(HR_ERR_MISMATCH, "dw", "dw of stage %d is %g, not %g", i,
                           got[HANDY_MICROBATCHES + i], all / handy_weight(i));
    return HR_OK;
}

/* Each weight gradient once, before the one reduction of its stage; nothing kept. */
static hr_status check_counts(const handy *h, const hr_schedule *s,
                              const hr_schedule_shape *shape)
{
    HOLDS(h->live == 0);
    for (int i = 0; i < h->n_mine; i++) {
        const handy_stage *st = &h->stage[h->mine[i]];
        HOLDS(st->reductions == !shape->forward_only);
        for (int m = 0; m < shape->microbatches; m++) {
            bool here = hr_schedule_rank_of(s, h->mine[i], m) == hr_group_rank(h->pp);
            HOLDS(st->x[m] == NULL && st->dy[m] == NULL);
            HOLDS(st->wgrads[m] == (here && !shape->forward_only));
        }
    }
    return HR_OK;
}

/* The functions were called as the schedule has it. */
static hr_status check_order(const handy *h, const hr_schedule *s)
{
    size_t n;
    int at = 0;
    const hr_action *a = hr_schedule_order(s, hr_group_rank(h->pp), &n);
    for (size_t i = 0; i < n; i++) {
        const hr_action *l = &h->log[at];
        if (a[i].kind > HR_ACTION_W)
            continue;
        HOLDS(at++ < h->n_log && l->kind == a[i].kind && l->stage == a[i].stage &&
              l->microbatch == a[i].microbatch);
    }
    HOLDS(at == h->n_log);
    return HR_OK;
}

enum { ALL = HANDY_MICROBATCHES + HANDY_STAGES };

static hr_status sum_over(const handy *h, hr_group *g, float sum[ALL])
{
    hr_stream *s = hr_stream_current();
    void *there;
    HR_TRY(hr_mem_alloc(s, ALL * sizeof *sum, &there));
    hr_status st = hr_all_reduce(g, h->dx, there, ALL, HR_F32, HR_SUM, s);
    if (st >= 0)
        st = hr_copy(s, sum, there, ALL * sizeof *sum);
    hr_mem_free(there, s);
    hr_status ran = hr_device_synchronize(hr_group_device(g));
    return st < 0 ? st : ran;
}

hr_status handy_sums(const handy *h, hr_group *g, float dw[HANDY_STAGES])
{
    float sum[ALL];
    HR_TRY(sum_over(h, g, sum));
    memcpy(dw, sum + HANDY_MICROBATCHES, HANDY_STAGES * sizeof *dw);
    return HR_OK;
}

hr_status handy_check(handy *h, const hr_schedule *s, hr_loss_mode mode)
{
    float sum[ALL];
    hr_schedule_shape shape;
    hr_schedule_get_shape(s, &shape);
    handy_give_up(h);
    HR_TRY(check_counts(h, s, &shape));
    HR_TRY(check_order(h, s));
    HR_TRY(sum_over(h, h->pp, sum));
    if (!shape.forward_only)
        return compare(h, sum, &shape, mode);
    for (int i = 0; i < ALL; i++)
        HOLDS(sum[i] == 0);
    return HR_OK;
}

hr_status handy_step(handy *h, const hr_schedule *s, const hr_program *p,
                     hr_loss_mode mode)
{
    HR_TRY(handy_zero(h));
    HR_TRY(hr_exec_step(
        h->e, p, &(hr_exec_step_opts){HR_INIT(hr_exec_step_opts), .mode = mode}, NULL));
    return handy_check(h, s, mode);
}
