/* Ten thousand seeded corruptions of sound schedules. A second, slow reading of the rules, with nothing
 * in common with the library's, says for each whether it is still sound; the check has to agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, LONGEST = 400, STAGES = 16, MICROBATCHES = 12, KINDS = 4 };

typedef struct table {
    hr_schedule_shape shape;
    hr_action a[RANKS][LONGEST];
    int n[RANKS];
} table;

static uint64_t seed = 20261202;

static int draw(int below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)below);
}

static void unpack(const hr_schedule *s, table *t)
{
    hr_schedule_get_shape(s, &t->shape);
    for (int r = 0; r < t->shape.ranks; r++) {
        size_t n;
        const hr_action *a = hr_schedule_order(s, r, &n);
        assert_true(n + 1 < LONGEST);
        memcpy(t->a[r], a, n * sizeof *a);
        t->n[r] = (int)n;
    }
}

static hr_schedule *pack(const table *t)
{
    hr_schedule *s = NULL;
    assert_int_equal(hr_schedule_create(&t->shape, &s), HR_OK);
    for (int r = 0; r < t->shape.ranks; r++)
        for (int i = 0; i < t->n[r];) {
            int slot = t->a[r][i].pair ? t->a[r][i].pair : 1;
            assert_int_equal(hr_schedule_append(s, r, &t->a[r][i], slot), HR_OK);
            i += slot;
        }
    return s;
}

static bool single(const hr_action *a)
{
    return a->pair == 0;
}

/* One change; pairs stay whole. */
static void corrupt(table *t)
{
    int r = draw(t->shape.ranks);
    int i = draw(t->n[r]);
    hr_action *a = &t->a[r][i];
    hr_action *b = &t->a[r][draw(t->n[r])];
    hr_action keep = *a;
    switch (draw(6)) {
    case 0: /* swap two of a rank */
        if (single(a) && single(b)) {
            *a = *b;
            *b = keep;
        }
        break;
    case 1: /* leave one out */
        if (single(a))
            memmove(a, a + 1, (size_t)(--t->n[r] - i) * sizeof *a);
        break;
    case 2: /* one twice */
        if (single(a))
            memmove(a + 1, a, (size_t)(t->n[r]++ - i) * sizeof *a);
        break;
    case 3:
        a->microbatch = draw(t->shape.microbatches);
        break;
    case 4:
        a->stage = (uint16_t)draw(t->shape.stages);
        break;
    default:
        a->kind = (uint8_t)draw(KINDS);
        break;
    }
}

static int count(const table *t, int kind, int stage, int m)
{
    int n = 0;
    for (int r = 0; r < t->shape.ranks; r++)
        for (int i = 0; i < t->n[r]; i++)
            n += t->a[r][i].kind == kind && t->a[r][i].stage == stage &&
                 t->a[r][i].microbatch == m;
    return n;
}

static bool complete(const table *t)
{
    for (int s = 0; s < t->shape.stages; s++)
        for (int m = 0; m < t->shape.microbatches; m++) {
            int n[KINDS];
            for (int k = 0; k < KINDS; k++)
                n[k] = count(t, k, s, m);
            bool whole =
                n[HR_ACTION_B] == 1 && n[HR_ACTION_I] == 0 && n[HR_ACTION_W] == 0;
            bool split =
                n[HR_ACTION_B] == 0 && n[HR_ACTION_I] == 1 && n[HR_ACTION_W] == 1;
            if (n[HR_ACTION_F] != 1 || (!whole && !split))
                return false;
        }
    return true;
}

static int home(const table *t, int stage, int m)
{
    int p = t->shape.ranks;
    switch (t->shape.placement) {
    case HR_PLACEMENT_V:
        return stage < p ? stage : 2 * p - 1 - stage;
    case HR_PLACEMENT_BIDIRECTIONAL:
        return m < t->shape.microbatches / 2 ? stage : p - 1 - stage;
    default:
        return stage % p;
    }
}

static bool placed(const table *t)
{
    for (int r = 0; r < t->shape.ranks; r++)
        for (int i = 0; i < t->n[r]; i++)
            if (home(t, t->a[r][i].stage, t->a[r][i].microbatch) != r)
                return false;
    return true;
}

static bool runs(const table *t)
{
    bool done[2][STAGES][MICROBATCHES] = {{{false}}}; /* F, and B or I */
    int at[RANKS] = {0};
    int last = t->shape.stages - 1;
    for (bool went = true; went;) {
        went = false;
        for (int r = 0; r < t->shape.ranks; r++) {
            if (at[r] == t->n[r])
                continue;
            const hr_action *a = &t->a[r][at[r]];
            int slot = a->pair ? a->pair : 1;
            bool ready = true;
            for (int k = 0; k < slot; k++) {
                int s = a[k].stage;
                int m = a[k].microbatch;
                if (a[k].kind == HR_ACTION_F)
                    ready &= s == 0 || done[0][s - 1][m];
                else if (a[k].kind == HR_ACTION_W)
                    ready &= done[1][s][m];
                else
                    ready &= done[0][s][m] && (s == last || done[1][s + 1][m]);
            }
            if (!ready)
                continue;
            for (int k = 0; k < slot; k++)
                if (a[k].kind != HR_ACTION_W)
                    done[a[k].kind != HR_ACTION_F][a[k].stage][a[k].microbatch] = true;
            at[r] += slot;
            went = true;
        }
    }
    for (int r = 0; r < t->shape.ranks; r++)
        if (at[r] < t->n[r])
            return false;
    return true;
}

static void every_corruption_is_caught_or_harmless(void **state)
{
    static const struct {
        const char *name;
        int p, v, m;
    } from[] = {{"1f1b", 4, 1, 6},     {"interleaved", 3, 2, 6}, {"zb-h1", 4, 1, 8},
                {"zbv", 3, 2, 5},      {"dualpipe", 4, 1, 8},    {"dualpipev", 3, 2, 7},
                {"combined", 2, 3, 4}, {"v-min", 4, 2, 8}};
    enum { FROM = sizeof from / sizeof from[0] };
    static table base[FROM];
    int harmless = 0;
    int caught = 0;
    for (int k = 0; k < FROM; k++) {
        hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = from[k].p,
                              .chunks = from[k].v, .microbatches = from[k].m};
        hr_schedule *s = NULL;
        assert_int_equal(hr_schedule_generate(from[k].name, &o, &s), HR_OK);
        unpack(s, &base[k]);
        hr_schedule_destroy(s);
    }
    for (int n = 0; n < 10000; n++) {
        static table t;
        int k = n % FROM;
        t = base[k];
        for (int c = 1 + draw(2); c > 0; c--)
            corrupt(&t);
        hr_schedule *s = pack(&t);
        bool sound = complete(&t) && placed(&t) && runs(&t);
        bool passed = hr_schedule_check(s, NULL, NULL) == HR_OK;
        if (passed != sound)
            fail_msg("corruption %d of %s: sound %d, check: %s", n, from[k].name, sound,
                     passed ? "passes" : hr_last_error());
        harmless += sound;
        caught += !sound;
        hr_schedule_destroy(s);
    }
    assert_true(harmless > 100 && caught > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_corruption_is_caught_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
