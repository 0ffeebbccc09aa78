/* What a step holds: activations as the checker says, buffers that transfers still read, and nothing
 * behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"
#include "unit/exec/handy.h"

enum { RANKS = 4, STEPS = 1000, ELEMENTS = 16 };

static void expect_done(const char *engine, hr_rank_fn fn, void *arg)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 20, .engine = engine,
                       .delay_us = 2000};
    o.device = (hr_device_opts){HR_INIT(hr_device_opts), .poison = 1};
    if (hr_local_run(RANKS, &o, fn, arg) < 0)
        fail_msg("%s", hr_last_error());
}

static hr_mem_stats stats_of(const handy *h)
{
    hr_mem_stats m;
    hr_mem_get_stats(hr_group_device(h->world), &m);
    return m;
}

/* ---- pain 12: peaks ------------------------------------------------------------------------ */
struct ask {
    const char *name;
    bool pairs, vary;
};

/* What one step of a program held on this rank. */
struct held {
    int forwards;
    int act, wstash; /* as the checker says */
    size_t peak;     /* bytes above what was there before */
    int places;      /* addresses at which tensors stood */
};

static hr_status step_of(handy *h, const hr_schedule *s, const hr_program *p,
                         struct held *out)
{
    hr_figures *f;
    hr_schedule_shape shape;
    size_t before = stats_of(h).live_bytes;
    hr_mem_reset_peak(hr_group_device(h->world));
    HR_TRY(handy_zero(h));
    HR_TRY(hr_exec_step(h->e, p, NULL, NULL));
    out->peak = stats_of(h).peak_bytes - before;
    out->places = h->places;
    HR_TRY(handy_check(h, s, HR_LOSS_SUM));
    hr_schedule_get_shape(s, &shape);
    HR_TRY(hr_schedule_simulate(s, NULL, &f));
    const hr_rank_figures *figures = &f->rank[hr_group_rank(h->pp)];
    out->act = shape.forward_only ? 0 : figures->peak_act;
    out->wstash = figures->peak_wstash;
    out->forwards = shape.microbatches * h->n_mine;
    hr_figures_destroy(f);
    HOLDS(h->peak == out->act);
    HOLDS(stats_of(h).live_bytes == before);
    return HR_OK;
}

/* An activation is the input of a stage, what waits for its weight gradient the gradient of its
 * output. Besides there is what comes in, twice over where a rank has neighbours on both sides of both
 * its stages, and what is just made. */
static hr_status check_held(const struct held *few, const struct held *many)
{
    enum { BLOCK = ELEMENTS * sizeof(float), BESIDES = 5 };
    HOLDS(many->peak <= (size_t)(many->act + many->wstash + BESIDES) * BLOCK);
    if (few->act != many->act || few->act == few->forwards)
        return HR_OK; /* gpipe; zb-h2, which 8 do not fill */
    HOLDS(few->peak == many->peak);
    HOLDS(many->places <= few->places + 3); /* the end of 8 comes early */
    return HR_OK;
}

static hr_status peaks_of(handy *h, const char *name)
{
    const int microbatches[2] = {8, 64};
    struct held held[2];
    for (int k = 0; k < 2; k++) {
        hr_schedule *s;
        hr_program *p;
        hr_status st = handy_generate(h, name, 0, microbatches[k], &s, &p);
        if (st == HR_ERR_UNSUPPORTED) /* parts of sequences */
            return HR_OK;
        HR_TRY(st);
        st = step_of(h, s, p, &held[k]);
        hr_program_destroy(p);
        hr_schedule_destroy(s);
        HR_TRY(st);
    }
    return check_held(&held[0], &held[1]);
}

static hr_status open(handy *h, hr_group *world, const struct ask *ask)
{
    HR_TRY(handy_init(h, world, 1, 1));
    h->pairs = ask->pairs;
    h->vary = ask->vary;
    for (int m = 0; m < HANDY_MICROBATCHES; m++)
        h->length[m] = ELEMENTS;
    return HR_OK;
}

static hr_status peaks(hr_group *world, void *arg)
{
    const struct ask *ask = arg;
    handy h;
    HR_TRY(open(&h, world, ask));
    hr_status st = peaks_of(&h, ask->name);
    handy_fini(&h);
    return st < 0 ? hr_fail(st, NULL, "%s: %s", ask->name, hr_last_error()) : st;
}

static void pain_12_peaks_are_the_checkers_with_8_and_64_microbatches(void **state)
{
    for (int i = 0; hr_schedule_name(i); i++) /* each with a pool of its own */
        for (int k = 0; k < 2; k++)
            expect_done(NULL, peaks,
                        &(struct ask){hr_schedule_name(i), .pairs = k, .vary = k});
}

/* ---- pain 12: a thousand steps ------------------------------------------------------------- */
static hr_status many_steps(handy *h, const hr_schedule *s, const hr_program *p)
{
    HR_TRY(handy_step(h, s, p, HR_LOSS_SUM));
    hr_mem_stats before = stats_of(h);
    for (int i = 0; i < STEPS; i++) {
        HR_TRY(handy_zero(h));
        HR_TRY(hr_exec_step(h->e, p, NULL, NULL));
    }
    HR_TRY(handy_check(h, s, HR_LOSS_SUM));
    hr_mem_stats now = stats_of(h);
    HOLDS(now.live_bytes == before.live_bytes);
    HOLDS(now.live_blocks == before.live_blocks);
    HOLDS(now.peak_bytes == before.peak_bytes);
    HOLDS(now.reserved_bytes == before.reserved_bytes);
    return HR_OK;
}

static hr_status thousand(hr_group *world, void *arg)
{
    const struct ask *ask = arg;
    hr_schedule *s;
    hr_program *p;
    handy h;
    HR_TRY(open(&h, world, ask));
    hr_status st = handy_generate(&h, ask->pairs ? "combined" : "1f1b", 0, 4, &s, &p);
    if (st >= 0)
        st = many_steps(&h, s, p);
    hr_program_destroy(p);
    hr_schedule_destroy(s);
    handy_fini(&h);
    return st;
}

static void pain_12_a_thousand_steps_leave_nothing(void **state)
{
    for (int k = 0; k < 2; k++)
        expect_done(NULL, thousand, &(struct ask){.pairs = k, .vary = k});
}

/* ---- pain 2 -------------------------------------------------------------------------------- */
static hr_status release_early(hr_group *world, void *arg)
{
    static const char *const names[] = {"interleaved", "combined", "zbv"};
    handy h;
    HR_TRY(open(&h, world, arg));
    h.free_early = true;
    hr_status st = HR_OK;
    for (size_t i = 0; st >= 0 && i < sizeof names / sizeof names[0]; i++) {
        hr_schedule *s;
        hr_program *p;
        st = handy_generate(&h, names[i], 2, 8, &s, &p);
        size_t before = stats_of(&h).live_blocks;
        for (int k = 0; st >= 0 && k < 2; k++)
            st = handy_step(&h, s, p, HR_LOSS_SUM);
        if (st >= 0 && stats_of(&h).live_blocks != before)
            st = hr_fail(HR_ERR_MISMATCH, "lost", "%s: %zu blocks were %zu", names[i],
                         stats_of(&h).live_blocks, before);
        hr_program_destroy(p);
        hr_schedule_destroy(s);
    }
    handy_fini(&h);
    return st;
}

/* The transport reads when somebody waits, freed memory is NaN. */
static void pain_2_a_buffer_is_its_transfers_until_that_has_run(void **state)
{
    for (int k = 0; k < 2; k++)
        expect_done("local-late", release_early, &(struct ask){.pairs = k, .vary = k});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pain_12_peaks_are_the_checkers_with_8_and_64_microbatches),
        cmocka_unit_test(pain_12_a_thousand_steps_leave_nothing),
        cmocka_unit_test(pain_2_a_buffer_is_its_transfers_until_that_has_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
