/* The handy model under every schedule: exact gradients, in all modes of scale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"
#include "unit/exec/handy.h"

#include <string.h>

static hr_local_opts quick(void)
{
    return (hr_local_opts){HR_INIT(hr_local_opts), .timeout_s = 20};
}

static void expect_done(int ranks, hr_rank_fn fn, void *arg)
{
    hr_local_opts o = quick();
    hr_status st = hr_local_run(ranks, &o, fn, arg);
    if (st < 0)
        fail_msg("%s", hr_last_error());
}

struct ask {
    int dp;
    bool pairs;
};

static hr_status steps_of(handy *h, const char *name, int chunks)
{
    hr_schedule *s;
    hr_program *p;
    hr_status st = handy_generate(h, name, chunks, 8, &s, &p);
    if (st == HR_ERR_UNSUPPORTED && strcmp(name, "seq-1f1b") == 0)
        return HR_OK;
    HR_TRY(st);
    for (int mode = HR_LOSS_SUM; mode <= HR_LOSS_MEAN_TOKEN && st >= 0; mode++)
        st = handy_step(h, s, p, (hr_loss_mode)mode);
    hr_program_destroy(p);
    hr_schedule_destroy(s);
    return st < 0 ? hr_fail(st, NULL, "%s: %s", name, hr_last_error()) : st;
}

static hr_status every_schedule(hr_group *world, void *arg)
{
    const struct ask *ask = arg;
    handy h;
    HR_TRY(handy_init(&h, world, ask->dp));
    h.pairs = ask->pairs;
    hr_status st = HR_OK;
    for (int i = 0; st >= 0 && hr_schedule_name(i); i++)
        st = steps_of(&h, hr_schedule_name(i), 0);
    handy_fini(&h);
    return st;
}

static void every_schedule_gives_exact_gradients(void **state)
{
    expect_done(4, every_schedule, &(struct ask){.dp = 1});
}

static void two_pipelines_share_the_scale(void **state)
{
    expect_done(8, every_schedule, &(struct ask){.dp = 2});
}

/* Outputs leave from the hooks of pairs, half of them from another stream. */
static void pairs_with_hooks_give_exact_gradients(void **state)
{
    expect_done(4, every_schedule, &(struct ask){.dp = 1, .pairs = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_gives_exact_gradients),
        cmocka_unit_test(two_pipelines_share_the_scale),
        cmocka_unit_test(pairs_with_hooks_give_exact_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
