/* Every generator for all small sizes: exact gradients, or a refusal before anything is sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/try.h"
#include "unit/exec/handy.h"

enum { MAX_RANKS = 6, MAX_CHUNKS = 3, MAX_MICROBATCHES = 9 };

static void expect_done(int ranks, hr_rank_fn fn, void *arg)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 20};
    if (hr_local_run(ranks, &o, fn, arg) < 0)
        fail_msg("%d ranks: %s", ranks, hr_last_error());
}

/* ---- all sizes ----------------------------------------------------------------------------- */
struct size {
    const char *name;
    int ranks, chunks, microbatches;
};

/* A refusal says the sizes, what it wants, and what is near: "dualpipe with 4 ranks, 1 chunks a rank, 5
 * microbatches: it wants an even number ...; nearest that work: 8 or 10 microbatches". */
static hr_status check_refusal(const struct size *z)
{
    char sizes[128];
    const char *t = hr_last_error();
    snprintf(sizes, sizeof sizes,
             "%s with %d ranks, %d chunks a rank, %d microbatches: ", z->name, z->ranks,
             z->chunks, z->microbatches);
    HOLDS(strcmp(hr_last_reason(), "schedule_refused") == 0);
    HOLDS(strncmp(t, sizes, strlen(sizes)) == 0);
    /* Where two sizes are odd no single number is near. */
    bool two = z->ranks % 2 && strncmp(t, "dualpipe ", 9) == 0;
    HOLDS(strstr(t, ": it has ") || strstr(t, "nearest that work") || two);
    return HR_OK;
}

static hr_status one_size(handy *h, const struct size *z)
{
    hr_schedule *s;
    hr_program *p;
    hr_status st = handy_generate(h, z->name, z->chunks, z->microbatches, &s, &p);
    if (st == HR_ERR_UNSUPPORTED && strcmp(z->name, "seq-1f1b") == 0)
        return HR_OK; /* parts of sequences */
    if (st == HR_ERR_INVALID)
        return check_refusal(z);
    HR_TRY(st);
    st = handy_step(h, s, p, HR_LOSS_SUM);
    hr_program_destroy(p);
    hr_schedule_destroy(s);
    return st < 0 ? hr_fail(st, NULL, "%s, %d chunks, %d microbatches: %s", z->name,
                            z->chunks, z->microbatches, hr_last_error())
                  : st;
}

static hr_status all_sizes(hr_group *world, void *arg)
{
    handy h;
    struct size z = {.ranks = hr_group_size(world)};
    HR_TRY(handy_init(&h, world, 1, 1));
    hr_status st = HR_OK;
    for (z.chunks = 1; z.chunks <= MAX_CHUNKS; z.chunks++)
        for (int i = 0; (z.name = hr_schedule_name(i)); i++)
            for (z.microbatches = 1; z.microbatches <= MAX_MICROBATCHES && st >= 0;
                 z.microbatches++)
                st = one_size(&h, &z);
    handy_fini(&h);
    return st;
}

static void pain_7_every_size_is_exact_or_refused(void **state)
{
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        expect_done(ranks, all_sizes, NULL);
}

/* ---- from step to step --------------------------------------------------------------------- */
enum { COUNTS = 4 };

struct steps {
    hr_schedule *s[COUNTS + 1]; /* the last one evaluates */
    hr_program *p[COUNTS + 1];
};

static hr_status step(handy *h, const struct steps *x, int i)
{
    return handy_step(h, x->s[i], x->p[i], HR_LOSS_SUM);
}

static hr_status run_steps(handy *h, const char *name, struct steps *x)
{
    static const int microbatches[COUNTS] = {2, 1, 3, 5};
    for (int i = 0; i < COUNTS; i++)
        HR_TRY(handy_generate(h, name, 0, microbatches[i], &x->s[i], &x->p[i]));
    int chunks = h->n_mine;
    HR_TRY(handy_generate(h, "forward-only", chunks, 4, &x->s[COUNTS], &x->p[COUNTS]));
    for (int k = 0; k < 2 * COUNTS; k++) {
        HR_TRY(step(h, x, k % COUNTS));
        HR_TRY(step(h, x, COUNTS));
    }
    return HR_OK;
}

static hr_status changing_counts(hr_group *world, void *arg)
{
    static const char *const names[] = {"gpipe",      "1f1b",          "interleaved",
                                        "looped-bfs", "combined",      "zb-h1",
                                        "zb-h2",      "interleaved-zb"};
    handy h;
    HR_TRY(handy_init(&h, world, 1, 1));
    hr_status st = HR_OK;
    for (size_t i = 0; st >= 0 && i < sizeof names / sizeof names[0]; i++) {
        struct steps x = {{NULL}, {NULL}};
        st = run_steps(&h, names[i], &x);
        for (int k = 0; k <= COUNTS; k++) {
            hr_program_destroy(x.p[k]);
            hr_schedule_destroy(x.s[k]);
        }
        if (st < 0)
            st = hr_fail(st, NULL, "%s: %s", names[i], hr_last_error());
    }
    handy_fini(&h);
    return st;
}

/* 2, 1, 3, 5 microbatches in a row on one executor, evaluation in between. */
static void pain_7_the_count_changes_from_step_to_step(void **state)
{
    expect_done(4, changing_counts, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pain_7_the_count_changes_from_step_to_step),
        cmocka_unit_test(pain_7_every_size_is_exact_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
