/* Collectives of a group of one on a GPU, whose memory no kernel of the host reaches: here the test double's,
 * which hides it from the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/group.h"
#include "support/holds.h"
#include <string.h>

enum { N = 6, BYTES = N * sizeof(float) };

static const float numbers[N] = {1, -2, 3, -4, 5, -6};

/* Two pieces of device memory: the numbers, and zeros; and where to. */
typedef struct pieces {
    hr_stream *s;
    void *in, *out;
} pieces;

static hr_status begin(pieces *p)
{
    p->s = hr_stream_current();
    hr_status st = hr_mem_alloc(p->s, BYTES, &p->in);
    if (st >= 0)
        st = hr_mem_alloc(p->s, BYTES, &p->out);
    if (st >= 0)
        st = hr_copy(p->s, p->in, numbers, BYTES);
    return st < 0 ? st : hr_fill(p->s, p->out, 0, BYTES);
}

/* What lies at `at` now. */
static hr_status read_back(const pieces *p, const void *at, float *got)
{
    hr_status st = hr_copy(p->s, got, at, BYTES);
    return st < 0 ? st : hr_stream_synchronize(p->s);
}

static hr_status in_rank(hr_status (*fn)(hr_group *world, void *arg))
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .backend = "cuda"};
    return hr_local_run(1, &o, fn, NULL);
}

static hr_status put_each(hr_group *g, const pieces *p, int which, const int64_t *all)
{
    switch (which) {
    case 0:
        return hr_all_reduce(g, p->in, p->out, N, HR_F32, HR_SUM, p->s);
    case 1:
        return hr_all_gather(g, p->in, p->out, N, HR_F32, p->s);
    case 2:
        return hr_reduce_scatter(g, p->in, p->out, N, HR_F32, HR_MAX, p->s);
    default:
        return hr_all_to_all_v(g, p->in, all, p->out, all, sizeof(float), p->s);
    }
}

static hr_status copies(hr_group *g, void *arg)
{
    const int64_t all[] = {N};
    for (int which = 0; which < 4; which++) {
        float got[N];
        pieces p;
        HOLDS(begin(&p) >= 0);
        HOLDS(put_each(g, &p, which, all) >= 0);
        HOLDS(read_back(&p, p.out, got) >= 0);
        HOLDS(memcmp(got, numbers, BYTES) == 0);
        hr_mem_free(p.in, p.s);
        hr_mem_free(p.out, p.s);
    }
    return HR_OK;
}

static void what_a_member_sends_it_gets(void **state)
{
    assert_int_equal(in_rank(copies), HR_OK);
}

static hr_status in_place(hr_group *g, void *arg)
{
    float got[N];
    pieces p;
    HOLDS(begin(&p) >= 0);
    HOLDS(hr_all_reduce(g, p.in, p.in, N, HR_F32, HR_SUM, p.s) >= 0);
    HOLDS(hr_broadcast(g, p.in, BYTES, 0, p.s) >= 0);
    HOLDS(hr_barrier(g, p.s) >= 0);
    HOLDS(read_back(&p, p.in, got) >= 0);
    HOLDS(memcmp(got, numbers, BYTES) == 0);
    hr_mem_free(p.in, p.s);
    hr_mem_free(p.out, p.s);
    return HR_OK;
}

static void what_is_in_place_stays(void **state)
{
    assert_int_equal(in_rank(in_place), HR_OK);
}

static hr_status unequal(hr_group *g, void *arg)
{
    const int64_t sent[] = {N}, wanted[] = {N - 1};
    pieces p;
    HOLDS(begin(&p) >= 0);
    HOLDS(hr_all_to_all_v(g, p.in, sent, p.out, wanted, sizeof(float), p.s) ==
          HR_ERR_MISMATCH);
    HOLDS(strstr(hr_last_error(), "sends 6 elements to itself, but expects 5"));
    hr_mem_free(p.in, p.s);
    hr_mem_free(p.out, p.s);
    return HR_OK;
}

static void counts_that_differ_are_refused(void **state)
{
    assert_int_equal(in_rank(unequal), HR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_member_sends_it_gets),
        cmocka_unit_test(what_is_in_place_stays),
        cmocka_unit_test(counts_that_differ_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
