/* What an executor refuses, on all ranks alike and before anything is sent; and schedules that did not
 * come from a generator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "unit/exec/handy.h"

enum { RANKS = 4, MICROBATCHES = 8 };

static void expect_done(int ranks, hr_rank_fn fn, void *arg)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 20};
    if (hr_local_run(ranks, &o, fn, arg) < 0)
        fail_msg("%s", hr_last_error());
}

/* ---- schedules ----------------------------------------------------------------------------- */
static hr_status generate(const char *name, int ranks, int chunks, hr_schedule **out)
{
    return hr_schedule_generate(name,
                                &(hr_generate_opts){HR_INIT(hr_generate_opts),
                                                    .ranks = ranks, .chunks = chunks,
                                                    .microbatches = MICROBATCHES},
                                out);
}

/* Takes `from`. */
static hr_status lower(hr_schedule *from, bool shards, hr_schedule **out)
{
    hr_status st = hr_schedule_lower(
        from, &(hr_lower_opts){HR_INIT(hr_lower_opts), .shards = shards}, out);
    hr_schedule_destroy(from);
    return st;
}

static hr_status three_ranks(hr_schedule **out)
{
    return generate("1f1b", 3, 0, out);
}
static hr_status two_chunks(hr_schedule **out)
{
    return generate("interleaved", RANKS, 2, out);
}
static hr_status whole(hr_schedule **out)
{
    return generate("1f1b", RANKS, 0, out);
}
static hr_status split(hr_schedule **out)
{
    return generate("zb-h1", RANKS, 0, out);
}
static hr_status parts(hr_schedule **out)
{
    return generate("seq-1f1b", RANKS, 0, out);
}
static hr_status shards(hr_schedule **out)
{
    hr_schedule *s;
    HR_TRY(whole(&s));
    return lower(s, true, out);
}
static hr_status weight_slot_too_many(hr_schedule **out)
{
    HR_TRY(split(out));
    return hr_schedule_append(
        *out, 2, &(hr_action){.microbatch = 5, .stage = 2, .kind = HR_ACTION_W}, 1);
}
static hr_status no_schedule(hr_schedule **out)
{
    *out = NULL;
    return HR_OK;
}

/* ---- refusals ------------------------------------------------------------------------------ */
struct refusal {
    hr_status (*make)(hr_schedule **out);
    hr_status st;
    const char *reason, *words;
};

/* An executor for `fine`, which refuses the rest. */
struct ask {
    const char *fine;
    bool vary, no_split;
    const struct refusal *list;
    int n;
};

static hr_status is_refused(handy *h, const struct refusal *r)
{
    hr_schedule *s;
    hr_program *p;
    HR_TRY(r->make(&s));
    hr_status st = hr_exec_load(h->e, s, &p);
    hr_schedule_destroy(s);
    if (st == r->st && p == NULL && strcmp(hr_last_reason(), r->reason) == 0 &&
        strstr(hr_last_error(), r->words))
        return HR_OK;
    return hr_fail(HR_ERR_MISMATCH, "expect", "'%s' is not what it says: %d %s: %s",
                   r->words, st, hr_last_reason(), hr_last_error());
}

static hr_status refuse_all(hr_group *world, void *arg)
{
    const struct ask *ask = arg;
    hr_schedule *s;
    hr_program *p;
    handy h;
    HR_TRY(handy_init(&h, world, 1, 1));
    h.vary = ask->vary;
    h.no_split = ask->no_split;
    hr_status st = handy_generate(&h, ask->fine, 0, MICROBATCHES, &s, &p);
    for (int i = 0; st >= 0 && i < ask->n; i++)
        st = is_refused(&h, &ask->list[i]);
    if (st >= 0)
        st = handy_step(&h, s, p, HR_LOSS_SUM);
    hr_program_destroy(p);
    hr_schedule_destroy(s);
    handy_fini(&h);
    return st;
}

static void
what_cannot_be_run_is_refused_by_all_and_the_step_after_is_exact(void **state)
{
    static const struct refusal list[] = {
        {no_schedule, HR_ERR_INVALID, "no_schedule", "no schedule"},
        {three_ranks, HR_ERR_INVALID, "exec_ranks",
         "the schedule is for 3 ranks (3 stages, 8 microbatches), the pipeline has 4"},
        {two_chunks, HR_ERR_INVALID, "exec_shapes",
         "the schedule has 8 stages, shapes are given for 4"},
        {parts, HR_ERR_UNSUPPORTED, "exec_sequence", "parts of sequences"},
        {shards, HR_ERR_UNSUPPORTED, "exec_shards", "gathers weights"},
    };
    expect_done(RANKS, refuse_all, &(struct ask){.fine = "1f1b", .list = list, .n = 5});
}

static void pain_6_no_stage_is_left_out_or_run_elsewhere(void **state)
{
    static const struct refusal more[] = {
        {two_chunks, HR_ERR_INVALID, "exec_stage",
         "stage 4 of 8 (4 ranks, 8 microbatches) is on this rank, which has no "
         "functions for it"},
        {split, HR_ERR_INVALID, "exec_split", "stage 0 does not"},
    };
    static const struct refusal fewer[] = {
        {whole, HR_ERR_INVALID, "exec_stage",
         "stage 3 of 4 (4 ranks, 8 microbatches) is not on this rank, which has "
         "functions for it"},
    };
    expect_done(
        RANKS, refuse_all,
        &(struct ask){
            .fine = "1f1b", .vary = true, .no_split = true, .list = more, .n = 2});
    expect_done(RANKS, refuse_all,
                &(struct ask){.fine = "dualpipe", .list = fewer, .n = 1});
}

static void pain_10_a_weight_slot_too_many_is_refused(void **state)
{
    static const struct refusal list[] = {
        {weight_slot_too_many, HR_ERR_INVALID, "twice", "rank 2"},
        {weight_slot_too_many, HR_ERR_INVALID, "twice", "2W5"},
    };
    expect_done(RANKS, refuse_all,
                &(struct ask){.fine = "zb-h1", .list = list, .n = 2});
}

/* ---- executors ----------------------------------------------------------------------------- */
static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    return HR_OK;
}

static hr_status refuse_executor(hr_group *world, void *arg)
{
    const hr_exec_stage stages[2] = {
        {HR_INIT(hr_exec_stage), .stage = 7, .forward = forward},
        {HR_INIT(hr_exec_stage), .stage = 7, .forward = forward}};
    int me = hr_group_rank(world);
    hr_exec_opts o = {HR_INIT(hr_exec_opts), .pp = world, .stages = stages,
                      .n_stages = me == 2 ? 2 : 1};
    hr_exec *e;
    HOLDS(hr_exec_create(&o, &e) == HR_ERR_INVALID && e == NULL);
    HOLDS(strstr(hr_last_error(), "rank 2: ") && /* on all of them */
          strstr(hr_last_error(), "stage 7 is given twice"));
    o.n_stages = 1;
    o.fingerprint = me == 3 ? 5 : 4;
    HOLDS(hr_exec_create(&o, &e) == HR_ERR_MISMATCH && e == NULL);
    HOLDS(strstr(hr_last_error(),
                 "rank 3 creates an executor (4 ranks) with other shapes or "
                 "another layout, rank 0 creates"));
    o.fingerprint = 4;
    HR_TRY(hr_exec_create(&o, &e));
    hr_exec_destroy(e);
    return HR_OK;
}

static void one_ranks_wrong_options_leave_nobody_waiting(void **state)
{
    expect_done(RANKS, refuse_executor, NULL);
}

static hr_status refuse_pipelines(hr_group *world, void *arg)
{
    static const int not_there[] = {-1, 2, 3, 1 << 30, INT_MAX}; /* times 4: 0, -4 */
    for (size_t i = 0; i < sizeof not_there / sizeof not_there[0]; i++) {
        hr_exec *e;
        HOLDS(hr_exec_create(&(hr_exec_opts){HR_INIT(hr_exec_opts), .pp = world,
                                             .dp = not_there[i]},
                             &e) == HR_ERR_INVALID &&
              e == NULL);
        HOLDS(strcmp(hr_last_reason(), "exec_sizes") == 0);
    }
    return HR_OK;
}

static void more_pipelines_than_there_are_ranks_are_refused(void **state)
{
    expect_done(RANKS, refuse_pipelines, NULL);
}

/* ---- schedules of one's own ---------------------------------------------------------------- */
static hr_status through_csv(hr_schedule **s)
{
    char *text;
    hr_status st = hr_schedule_print_csv(*s, &text);
    hr_schedule_destroy(*s);
    *s = NULL;
    HR_TRY(st);
    st = hr_schedule_parse_csv(text, strlen(text), s);
    free(text);
    return st;
}

static hr_status lowered_csv(hr_schedule **out)
{
    HR_TRY(two_chunks(out));
    HR_TRY(lower(*out, false, out));
    return through_csv(out);
}

static hr_status plain_csv(hr_schedule **out)
{
    HR_TRY(split(out));
    return through_csv(out);
}

/* Six stages on four ranks, neighbours on one and far apart; all forwards, then all backwards. */
static hr_status by_map(hr_schedule **out)
{
    static const int rank_of_stage[] = {2, 0, 0, 3, 1, 2};
    enum { STAGES = sizeof rank_of_stage / sizeof *rank_of_stage };
    HR_TRY(hr_schedule_create(&(hr_schedule_shape){HR_INIT(hr_schedule_shape),
                                                   .ranks = RANKS, .stages = STAGES,
                                                   .microbatches = MICROBATCHES,
                                                   .placement = HR_PLACEMENT_MAP,
                                                   .rank_of_stage = rank_of_stage},
                              out));
    for (int i = 0; i < 2 * STAGES * MICROBATCHES; i++) {
        bool back = i >= STAGES * MICROBATCHES;
        int at = i % (STAGES * MICROBATCHES) / MICROBATCHES, m = i % MICROBATCHES;
        int stage = back ? STAGES - 1 - at : at;
        hr_action a = {.microbatch = m,
                       .stage = (uint16_t)stage,
                       .kind = back ? HR_ACTION_B : HR_ACTION_F};
        HR_TRY(hr_schedule_append(*out, rank_of_stage[stage], &a, 1));
    }
    return HR_OK;
}

static hr_status run_own(hr_group *world, void *arg)
{
    static hr_status (*const make[])(hr_schedule **) = {lowered_csv, plain_csv, by_map};
    handy h;
    HR_TRY(handy_init(&h, world, 1, 1));
    hr_status st = HR_OK;
    for (size_t i = 0; st >= 0 && i < sizeof make / sizeof make[0]; i++) {
        hr_schedule *s = NULL;
        hr_program *p = NULL;
        st = make[i](&s);
        if (st >= 0)
            st = handy_load(&h, s, &p);
        if (st >= 0)
            st = handy_step(&h, s, p, HR_LOSS_SUM);
        hr_program_destroy(p);
        hr_schedule_destroy(s);
    }
    handy_fini(&h);
    return st;
}

static void schedules_of_ones_own_run_from_csv_and_by_map(void **state)
{
    expect_done(RANKS, run_own, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            what_cannot_be_run_is_refused_by_all_and_the_step_after_is_exact),
        cmocka_unit_test(pain_6_no_stage_is_left_out_or_run_elsewhere),
        cmocka_unit_test(pain_10_a_weight_slot_too_many_is_refused),
        cmocka_unit_test(one_ranks_wrong_options_leave_nobody_waiting),
        cmocka_unit_test(more_pipelines_than_there_are_ranks_are_refused),
        cmocka_unit_test(schedules_of_ones_own_run_from_csv_and_by_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
