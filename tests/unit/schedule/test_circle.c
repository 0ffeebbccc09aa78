/* The smallest circle of small graphs made at random, beside the shortest ways between all nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedule/circle.h"

#include <stdlib.h>

enum { NODES = 9, FAR = 1000, PLENTY = 1 << 30 };

static uint64_t seed = 20261202;

static int draw(int below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)below);
}

typedef struct small {
    int nodes, first[NODES + 1], to[NODES * NODES];
    bool edge[NODES][NODES];
} small;

static void make(small *m)
{
    int n = 0;
    int crowd = 2 + draw(8);
    m->nodes = 1 + draw(NODES);
    for (int i = 0; i < m->nodes; i++) {
        m->first[i] = n;
        for (int j = 0; j < m->nodes; j++) {
            m->edge[i][j] = draw(crowd) == 0 && (i != j || draw(8) == 0);
            if (m->edge[i][j])
                m->to[n++] = j;
        }
    }
    m->first[m->nodes] = n;
}

/* The length of the shortest way from any node back to itself; 0 if there is none. */
static int shortest(const small *m)
{
    int way[NODES][NODES];
    int best = FAR;
    for (int i = 0; i < m->nodes; i++)
        for (int j = 0; j < m->nodes; j++)
            way[i][j] = m->edge[i][j] ? 1 : FAR;
    for (int k = 0; k < m->nodes; k++)
        for (int i = 0; i < m->nodes; i++)
            for (int j = 0; j < m->nodes; j++)
                if (way[i][k] + way[k][j] < way[i][j])
                    way[i][j] = way[i][k] + way[k][j];
    for (int i = 0; i < m->nodes; i++)
        best = way[i][i] < best ? way[i][i] : best;
    return best == FAR ? 0 : best;
}

static void is_a_circle(const small *m, const hr__circle *c)
{
    for (int k = 0; k < c->length; k++) {
        assert_true(m->edge[c->way[k]][c->way[(k + 1) % c->length]]);
        assert_true(c->way[k] >= c->way[0]);
    }
}

static void the_circle_is_the_smallest(void **state)
{
    for (int n = 0; n < 20000; n++) {
        small m;
        int way[NODES];
        hr__circle c = {.way = way};
        make(&m);
        hr__graph g = {m.nodes, m.first, m.to};
        assert_int_equal(hr__circle_find(&g, PLENTY, &c), HR_OK);
        assert_true(c.smallest);
        assert_int_equal(c.length, shortest(&m));
        is_a_circle(&m, &c);
    }
}

/* Given up early it has a circle all the same wherever there is one, and says so. */
static void a_search_that_is_given_up_has_some_circle(void **state)
{
    int given_up = 0;
    for (int n = 0; n < 2000; n++) {
        small m;
        int way[NODES];
        hr__circle c = {.way = way};
        make(&m);
        hr__graph g = {m.nodes, m.first, m.to};
        assert_int_equal(hr__circle_find(&g, 1, &c), HR_OK);
        assert_int_equal(c.length > 0, shortest(&m) > 0);
        assert_true(!c.smallest || c.length == shortest(&m));
        is_a_circle(&m, &c);
        given_up += !c.smallest;
    }
    assert_true(given_up > 100);
}

/* As many ranks as there can be, in one circle: one start is enough to know. */
static void one_large_circle_takes_no_more_steps_than_it_has_nodes(void **state)
{
    enum { LARGE = 65535 };
    int *first = malloc((LARGE + 1) * sizeof *first);
    int *to = malloc(LARGE * sizeof *to);
    hr__circle c = {.way = malloc(LARGE * sizeof *c.way)};
    assert_true(first && to && c.way);
    for (int k = 0; k <= LARGE; k++)
        first[k] = k;
    for (int k = 0; k < LARGE; k++)
        to[k] = (k + 1) % LARGE;
    hr__graph g = {LARGE, first, to};
    assert_int_equal(hr__circle_find(&g, LARGE, &c), HR_OK);
    assert_true(c.smallest);
    assert_int_equal(c.length, LARGE);
    free(first);
    free(to);
    free(c.way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_circle_is_the_smallest),
        cmocka_unit_test(a_search_that_is_given_up_has_some_circle),
        cmocka_unit_test(one_large_circle_takes_no_more_steps_than_it_has_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
