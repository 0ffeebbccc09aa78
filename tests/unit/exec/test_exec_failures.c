/* One rank goes wrong, stays away or does something else: all come back with the same first cause,
 * and the step after is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <string.h>

#include "base/try.h"
#include "unit/exec/handy.h"

enum { RANKS = 4, MICROBATCHES = 8, WORDS = 6 };

struct ask {
    const char *schedule;
    int chunks;
    bool pairs, vary;
    hr_action_kind kind;
    int stage, microbatch;
    handy_fault fault;
    hr_status (*deed)(handy *h, const struct ask *ask, const hr_schedule *s,
                      const hr_program *p);
    bool no_reset; /* the step was refused: the job has not failed */
    hr_status got[RANKS];
    char text[RANKS][1200];
};

static hr_status step(handy *h, const hr_schedule *s, const hr_program *p)
{
    return handy_step(h, s, p, HR_LOSS_SUM);
}

static size_t live_blocks(const handy *h)
{
    hr_mem_stats m;
    hr_mem_get_stats(hr_group_device(h->world), &m);
    return m.live_blocks;
}

/* A clean step, one that goes wrong, and a clean one. */
static hr_status around(handy *h, struct ask *ask, const hr_schedule *s,
                        const hr_program *p)
{
    int me = hr_group_rank(h->world);
    HR_TRY(step(h, s, p));
    HR_TRY(handy_zero(h));
    size_t before = live_blocks(h);
    ask->got[me] = ask->deed(h, ask, s, p);
    if (!ask->no_reset)
        HOLDS(hr_group_status(h->world) == ask->got[me]); /* and its sentence */
    snprintf(ask->text[me], sizeof ask->text[me], "%s", hr_last_error());
    HOLDS(h->live == 0 || ask->got[me] >= 0);
    HOLDS(live_blocks(h) == before);
    h->fail_kind = HR_ACTION_RECV_B;
    if (!ask->no_reset)
        HR_TRY(hr_job_reset(h->world));
    HR_TRY(step(h, s, p));
    return step(h, s, p);
}

static hr_status rank(hr_group *world, void *arg)
{
    struct ask *ask = arg;
    hr_schedule *s;
    hr_program *p;
    handy h;
    HR_TRY(handy_init(&h, world, 1, 1));
    h.pairs = ask->pairs;
    h.vary = ask->vary;
    hr_status st = handy_generate(&h, ask->schedule, ask->chunks, MICROBATCHES, &s, &p);
    if (st >= 0)
        st = around(&h, ask, s, p);
    hr_program_destroy(p);
    hr_schedule_destroy(s);
    handy_fini(&h);
    return st;
}

/* All ranks came back with `st` and one text, which has the words. */
static void expect(struct ask *ask, double timeout_s, hr_status st,
                   const char *const words[WORDS])
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = timeout_s};
    if (hr_local_run(RANKS, &o, rank, ask) < 0)
        fail_msg("%s: %s", ask->schedule, hr_last_error());
    for (int r = 0; r < RANKS; r++) {
        if (ask->got[r] != st)
            fail_msg("%s: rank %d: %d, not %d: %s", ask->schedule, r, ask->got[r], st,
                     ask->text[r]);
        assert_string_equal(ask->text[r], ask->text[0]);
    }
    for (int i = 0; i < WORDS && words[i]; i++)
        if (!strstr(ask->text[0], words[i]))
            fail_msg("%s: no '%s' in: %s", ask->schedule, words[i], ask->text[0]);
}
#define EXPECT(ask, timeout_s, st, ...)                                                \
    expect(ask, timeout_s, st, (const char *const[WORDS]){__VA_ARGS__})

/* ---- a stage ------------------------------------------------------------------------------- */
static hr_status run_wrong(handy *h, const struct ask *ask, const hr_schedule *s,
                           const hr_program *p)
{
    h->fail_kind = ask->kind;
    h->fail_stage = ask->stage;
    h->fail_microbatch = ask->microbatch;
    h->fault = ask->fault;
    HR_TRY(hr_exec_step(h->e, p, NULL, NULL));
    /* A rank may be through before another goes wrong; none is before all are. */
    HR_TRY(hr_barrier(h->world, hr_stream_current()));
    return hr_device_synchronize(hr_group_device(h->world));
}

static void pain_13_a_callback_fails_at_microbatch_3_on_rank_2(void **state)
{
    static const struct {
        const char *schedule;
        int chunks;
        bool vary;
        hr_action_kind kind;
        int stage;
        const char *where;
    } cases[] = {
        {"1f1b", 1, false, HR_ACTION_F, 2, "stage 2 (chunk 0), microbatch 3, forward"},
        {"1f1b", 1, true, HR_ACTION_B, 2, "stage 2 (chunk 0), microbatch 3, backward"},
        {"interleaved", 2, false, HR_ACTION_B, 6,
         "stage 6 (chunk 1), microbatch 3, backward"},
        {"zb-h1", 1, true, HR_ACTION_I, 2,
         "stage 2 (chunk 0), microbatch 3, input gradient"},
        {"zbv", 2, false, HR_ACTION_W, 5,
         "stage 5 (chunk 1), microbatch 3, weight gradient"},
        {"dualpipev", 2, false, HR_ACTION_F, 2, "microbatch 3, forward"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ask ask = {.schedule = cases[i].schedule,
                          .chunks = cases[i].chunks,
                          .vary = cases[i].vary,
                          .kind = cases[i].kind,
                          .stage = cases[i].stage,
                          .microbatch = 3,
                          .deed = run_wrong};
        EXPECT(&ask, 20, HR_ERR_CALLBACK, "rank 2: ", cases[i].where,
               ": out of memory, say");
    }
}

static void pain_10_a_step_that_fails_leaves_no_weight_gradient(void **state)
{
    static const char *const names[] = {"zb-h1", "zb-h2", "interleaved-zb"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct ask ask = {.schedule = names[i],
                          .kind = i ? HR_ACTION_W : HR_ACTION_I,
                          .stage = 1,
                          .microbatch = 4,
                          .deed = run_wrong};
        EXPECT(&ask, 20, HR_ERR_CALLBACK, "rank 1: stage 1 (chunk 0), microbatch 4, ",
               i ? "weight gradient" : "input gradient");
    }
}

static void what_a_function_that_fails_has_put_out_is_given_up(void **state)
{
    static const hr_action_kind kinds[] = {HR_ACTION_F, HR_ACTION_B};
    for (int i = 0; i < 4; i++) {
        struct ask ask = {.schedule = i < 2 ? "1f1b" : "combined",
                          .chunks = i < 2 ? 1 : 2,
                          .pairs = i >= 2,
                          .kind = kinds[i % 2],
                          .stage = 2,
                          .microbatch = 3,
                          .fault = HANDY_HALF,
                          .deed = run_wrong};
        EXPECT(&ask, 20, HR_ERR_CALLBACK, "microbatch 3, ", "out of memory, say");
    }
}

/* The host has gone on by the time it fails; a kernel knows its rank and its microbatch. */
static void pain_13_a_kernel_fails_on_rank_2(void **state)
{
    struct ask ask = {.schedule = "1f1b",
                      .kind = HR_ACTION_F,
                      .stage = 2,
                      .microbatch = 3,
                      .fault = HANDY_KERNEL,
                      .deed = run_wrong};
    for (int vary = 0; vary <= 1; vary++) {
        ask.vary = vary;
        EXPECT(&ask, 20, HR_ERR_CALLBACK,
               "rank 2: stream 'compute', microbatch 3, launch 'fail_here': out of "
               "memory, say");
    }
}

/* Both halves are named; a wrong shape is found in the hook that sends it. */
static void pain_13_a_pair_fails_on_rank_2(void **state)
{
    struct ask ask = {.schedule = "combined",
                      .chunks = 2,
                      .pairs = true,
                      .kind = HR_ACTION_B,
                      .stage = 2,
                      .microbatch = 3,
                      .deed = run_wrong};
    EXPECT(&ask, 20, HR_ERR_CALLBACK, "rank 2: stage ", "forward beside stage 2",
           "microbatch 3, backward: ", "out of memory, say");
    ask.fault = HANDY_SHAPE;
    EXPECT(&ask, 20, HR_ERR_INVALID, "rank 2: stage ", "forward beside stage 2",
           "put out f32", "stage 2 takes f32");
    ask.kind = HR_ACTION_F;
    ask.microbatch = 5;
    EXPECT(&ask, 20, HR_ERR_INVALID, "rank 2: stage 2 (chunk 0), microbatch 5, forward",
           "put out f32", "stage 3 takes f32");
}

static void pain_13_a_callback_that_never_returns_is_named(void **state)
{
    struct ask ask = {.schedule = "1f1b",
                      .kind = HR_ACTION_F,
                      .stage = 2,
                      .microbatch = 3,
                      .fault = HANDY_STUCK,
                      .deed = run_wrong};
    EXPECT(&ask, 0.3, HR_ERR_TIMEOUT, "waited 0.3 s in send_recv", "ing the ", "stage ",
           ", chunk 0, microbatch ");
}

/* ---- ranks that do something else ---------------------------------------------------------- */
static hr_status stay_away(handy *h, const struct ask *ask, const hr_schedule *s,
                           const hr_program *p)
{
    if (hr_group_rank(h->world) != 1)
        return hr_exec_step(h->e, p, NULL, NULL);
    while (hr_group_status(h->world) == HR_OK)
        sched_yield();
    return hr_group_status(h->world);
}

static void pain_13_a_rank_that_never_enters_is_listed(void **state)
{
    struct ask ask = {.schedule = "1f1b", .deed = stay_away};
    EXPECT(&ask, 0.3, HR_ERR_TIMEOUT, "start of a step", "present: 0,2,3; missing: 1");
}

static hr_status evaluate_alone(handy *h, const struct ask *ask, const hr_schedule *s,
                                const hr_program *p)
{
    hr_schedule *other;
    hr_program *evaluation;
    HR_TRY(handy_generate(h, "forward-only", 1, 4, &other, &evaluation));
    hr_status st =
        hr_exec_step(h->e, hr_group_rank(h->world) == 2 ? evaluation : p, NULL, NULL);
    hr_program_destroy(evaluation);
    hr_schedule_destroy(other);
    return st;
}

static void pain_13_a_rank_alone_in_evaluation_is_named(void **state)
{
    struct ask ask = {.schedule = "1f1b", .deed = evaluate_alone, .no_reset = true};
    EXPECT(&ask, 20, HR_ERR_MISMATCH,
           "rank 2 evaluates (forward-only, 4 microbatches, 4 stages",
           "rank 0 trains (8 microbatches, 4 stages");
}

static hr_status load_another(handy *h, const struct ask *ask, const hr_schedule *s,
                              const hr_program *p)
{
    hr_schedule *other;
    hr_program *no;
    const hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = RANKS,
                                .microbatches = MICROBATCHES};
    HR_TRY(hr_schedule_generate(hr_group_rank(h->world) == 3 ? "gpipe" : "1f1b", &o,
                                &other));
    hr_status st = hr_exec_load(h->e, other, &no);
    hr_schedule_destroy(other);
    return st;
}

static void pain_13_a_mismatched_schedule_is_found_when_loaded(void **state)
{
    struct ask ask = {.schedule = "1f1b", .deed = load_another, .no_reset = true};
    EXPECT(&ask, 20, HR_ERR_MISMATCH,
           "rank 3 loads a schedule (8 microbatches, 4 stages, 4 ranks) in another "
           "order, rank 0 loads");
}

/* ---- loading ------------------------------------------------------------------------------- */
static hr_status load_without_rank_1(handy *h, const struct ask *ask,
                                     const hr_schedule *s, const hr_program *p)
{
    hr_program *no;
    if (hr_group_rank(h->world) != 1)
        return hr_exec_load(h->e, s, &no);
    return stay_away(h, ask, s, p);
}

static void pain_13_a_rank_that_never_loads_is_listed(void **state)
{
    struct ask ask = {.schedule = "1f1b", .deed = load_without_rank_1};
    EXPECT(&ask, 0.3, HR_ERR_TIMEOUT, "loading a schedule",
           "present: 0,2,3; missing: 1");
}

static hr_status use_up_streams(hr_device *dev, hr_stream *taken[HR_MAX_STREAMS])
{
    for (int i = 0; i < HR_MAX_STREAMS; i++)
        if (hr_stream_create(dev, NULL, &taken[i]) < 0)
            return HR_OK;
    return hr_fail(HR_ERR_MISMATCH, "expect", "streams without end");
}

/* New channels want streams, of which rank 1 has none left; afterwards it has. */
static hr_status load_without_streams(handy *h, const struct ask *ask,
                                      const hr_schedule *s, const hr_program *p)
{
    hr_stream *taken[HR_MAX_STREAMS] = {NULL};
    hr_schedule *other;
    hr_program *none, *there;
    if (hr_group_rank(h->world) == 1)
        HR_TRY(use_up_streams(hr_group_device(h->world), taken));
    hr_status st = handy_generate(h, "1f1b", 1, MICROBATCHES, &other, &none);
    HOLDS(st < 0 && none == NULL);
    char said[400];
    snprintf(said, sizeof said, "%s", hr_last_error());
    for (int i = 0; i < HR_MAX_STREAMS; i++)
        hr_stream_destroy(taken[i]);
    HR_TRY(handy_generate(h, "1f1b", 1, MICROBATCHES, &other, &there));
    HR_TRY(step(h, other, there));
    hr_program_destroy(there);
    hr_schedule_destroy(other);
    return hr_fail(st, NULL, "%s", said);
}

static void pain_13_what_one_rank_has_no_room_for_none_loads(void **state)
{
    struct ask ask = {
        .schedule = "forward-only", .deed = load_without_streams, .no_reset = true};
    EXPECT(&ask, 20, HR_ERR_INVALID, "rank 1: ", "is one more than the 32 of a device");
}

struct spin {
    int turns;
};

static hr_status fail_soon(const void *args, hr_team *team)
{
    for (int i = 0; i < ((const struct spin *)args)->turns; i++)
        sched_yield();
    return hr_fail(HR_ERR_CALLBACK, "made_up", "some time");
}

/* Rank 2's device fails at some time, most likely in the midst of loading. */
static hr_status fail_while_loading(handy *h, const char *name, int turns)
{
    hr_schedule *s;
    hr_program *p;
    struct spin spin = {turns};
    HR_TRY(hr_barrier(h->world, hr_stream_current())); /* all are through so far */
    hr_status st = hr_stream_synchronize(hr_stream_current());
    if (hr_group_rank(h->world) == 2)
        st = hr_launch(hr_stream_current(), "fail_soon", fail_soon, &spin, sizeof spin,
                       NULL, 0);
    if (st >= 0) /* else rank 2 has been quick */
        st = handy_generate(h, name, 0, MICROBATCHES, &s, &p);
    if (st >= 0) {
        hr_program_destroy(p);
        hr_schedule_destroy(s);
    }
    while (hr_group_status(h->world) == HR_OK)
        sched_yield();
    return hr_job_reset(h->world);
}

static hr_status load_many_times(hr_group *world, void *arg)
{
    hr_status st = HR_OK;
    for (int turns = 0; st >= 0 && turns < 100; turns++) {
        hr_schedule *s = NULL;
        hr_program *p = NULL;
        handy h;
        HR_TRY(handy_init(&h, world, 1, 1));
        st = handy_generate(&h, "forward-only", 0, 1, &s, &p);
        hr_program_destroy(p);
        hr_schedule_destroy(s);
        if (st >= 0)
            st = fail_while_loading(&h, "1f1b", 6 * turns);
        if (st >= 0)
            st = handy_generate(&h, "1f1b", 0, MICROBATCHES, &s, &p);
        if (st >= 0) {
            st = step(&h, s, p);
            hr_program_destroy(p);
            hr_schedule_destroy(s);
        }
        handy_fini(&h);
    }
    return st;
}

static void pain_13_after_a_failure_while_loading_the_next_load_is_good(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 5};
    if (hr_local_run(RANKS, &o, load_many_times, NULL) < 0)
        fail_msg("%s", hr_last_error());
}

static hr_status load_while_others_step(handy *h, const struct ask *ask,
                                        const hr_schedule *s, const hr_program *p)
{
    hr_program *no;
    if (hr_group_rank(h->world) != 1)
        return hr_exec_step(h->e, p, NULL, NULL);
    return hr_exec_load(h->e, s, &no);
}

static void pain_13_a_rank_that_loads_while_others_step_is_named(void **state)
{
    struct ask ask = {
        .schedule = "1f1b", .deed = load_while_others_step, .no_reset = true};
    EXPECT(&ask, 20, HR_ERR_MISMATCH, "rank 1 loads a schedule", "rank 0 trains");
}

static hr_status other_mode(handy *h, const struct ask *ask, const hr_schedule *s,
                            const hr_program *p)
{
    hr_loss_mode mode =
        hr_group_rank(h->world) == 3 ? HR_LOSS_MEAN_TOKEN : HR_LOSS_MEAN_MICROBATCH;
    return hr_exec_step(
        h->e, p, &(hr_exec_step_opts){HR_INIT(hr_exec_step_opts), .mode = mode}, NULL);
}

static hr_status mode_that_is_none(handy *h, const struct ask *ask,
                                   const hr_schedule *s, const hr_program *p)
{
    hr_loss_mode mode = hr_group_rank(h->world) == 3 ? (hr_loss_mode)77 : HR_LOSS_SUM;
    return hr_exec_step(
        h->e, p, &(hr_exec_step_opts){HR_INIT(hr_exec_step_opts), .mode = mode}, NULL);
}

static hr_status no_program(handy *h, const struct ask *ask, const hr_schedule *s,
                            const hr_program *p)
{
    return hr_exec_step(h->e, hr_group_rank(h->world) == 1 ? NULL : p, NULL, NULL);
}

static hr_status below_none(handy *h, const struct ask *ask, const hr_schedule *s,
                            const hr_program *p)
{
    int64_t before = h->tokens[5];
    h->tokens[5] = -3;
    hr_status st = other_mode(h, ask, s, p);
    h->tokens[5] = before;
    return st;
}

static void pain_13_what_one_rank_cannot_begin_none_begins(void **state)
{
    struct ask ask = {.schedule = "1f1b", .deed = other_mode, .no_reset = true};
    EXPECT(&ask, 20, HR_ERR_MISMATCH,
           "rank 3 trains (8 microbatches, 4 stages, 4 ranks) with another scale of "
           "the loss, rank 0 trains");
    ask.deed = mode_that_is_none;
    EXPECT(&ask, 20, HR_ERR_INVALID, "rank 3: ", "mode 77 is none");
    ask.deed = no_program;
    EXPECT(&ask, 20, HR_ERR_INVALID, "rank 1: ", "no program");
    ask.deed = below_none;
    EXPECT(&ask, 20, HR_ERR_CALLBACK, "rank 3: stage 3 (chunk 0), microbatch 5",
           "-3 tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pain_13_a_callback_fails_at_microbatch_3_on_rank_2),
        cmocka_unit_test(pain_10_a_step_that_fails_leaves_no_weight_gradient),
        cmocka_unit_test(what_a_function_that_fails_has_put_out_is_given_up),
        cmocka_unit_test(pain_13_a_kernel_fails_on_rank_2),
        cmocka_unit_test(pain_13_a_pair_fails_on_rank_2),
        cmocka_unit_test(pain_13_a_callback_that_never_returns_is_named),
        cmocka_unit_test(pain_13_a_rank_that_never_enters_is_listed),
        cmocka_unit_test(pain_13_a_rank_alone_in_evaluation_is_named),
        cmocka_unit_test(pain_13_a_mismatched_schedule_is_found_when_loaded),
        cmocka_unit_test(pain_13_a_rank_that_loads_while_others_step_is_named),
        cmocka_unit_test(pain_13_a_rank_that_never_loads_is_listed),
        cmocka_unit_test(pain_13_what_one_rank_has_no_room_for_none_loads),
        cmocka_unit_test(pain_13_after_a_failure_while_loading_the_next_load_is_good),
        cmocka_unit_test(pain_13_what_one_rank_cannot_begin_none_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
