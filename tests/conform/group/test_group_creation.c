/* Groups of groups: members, ranks, lists that are wrong or differ. */
#include "conform/group/engines.h"
#include <sched.h>
#include <string.h>

static hr_status sum_ranks(hr_group *g, int *out)
{
    *out = hr_group_global_rank(g, hr_group_rank(g));
    TRY(hr_all_reduce(g, out, out, 1, HR_I32, HR_SUM, hr_stream_current()));
    return hr_stream_synchronize(hr_stream_current());
}

static hr_status halves(hr_group *world, void *arg)
{
    int me = hr_group_rank(world), even[] = {2, 0}, odd[] = {3, 1}, sum;
    hr_group *a, *b, *mine, *inner;
    TRY(hr_group_create(world, even, 2, &a));
    TRY(hr_group_create(world, odd, 2, &b));
    CHECK((a != NULL) == (me % 2 == 0) && (b != NULL) == (me % 2 == 1));
    mine = a ? a : b;
    CHECK(hr_group_size(mine) == 2 && hr_group_rank(mine) == (me < 2));
    CHECK(hr_group_global_rank(mine, 0) == 2 + me % 2);
    CHECK(hr_group_global_rank(mine, 2) == HR_NO_RANK);
    CHECK(hr_group_device(mine) == hr_group_device(world));
    CHECK(strcmp(hr_group_engine(mine), hr_group_engine(world)) == 0);
    TRY(sum_ranks(mine, &sum));
    CHECK(sum == (me % 2 ? 4 : 2));
    TRY(hr_group_create(mine, NULL, 0, &inner)); /* a channel of its own */
    hr_group_release(mine);
    CHECK(hr_group_size(inner) == 2);
    TRY(sum_ranks(inner, &sum));
    CHECK(sum == (me % 2 ? 4 : 2));
    CHECK(hr_group_retain(inner) == inner);
    hr_group_release(inner);
    TRY(sum_ranks(inner, &sum));
    hr_group_release(inner);
    hr_group_release(NULL);
    return HR_OK;
}

static void groups_of_groups_know_their_members(void **state)
{
    static const int four = 4;
    succeeds(&four, 1, halves, NULL);
}

/* Released while its last operation is still under way. */
static hr_status release_early(hr_group *world, void *arg)
{
    hr_group *g;
    int x = 1;
    TRY(hr_group_create(world, NULL, 0, &g));
    TRY(hr_all_reduce(g, &x, &x, 1, HR_I32, HR_SUM, hr_stream_current()));
    hr_group_release(g);
    CHECK(x == hr_group_size(world));
    return HR_OK;
}

static void release_waits_for_what_is_queued(void **state)
{
    succeeds_everywhere(release_early, NULL);
}

static hr_status bad_lists(hr_group *world, void *arg)
{
    int twice[] = {0, 0}, far[] = {hr_group_size(world)}, below[] = {-1};
    hr_group *g = world;
    EXPECT(hr_group_create(world, far, 1, &g), HR_ERR_INVALID, "outside");
    CHECK(g == NULL);
    EXPECT(hr_group_create(world, below, 1, &g), HR_ERR_INVALID, "outside");
    EXPECT(hr_group_create(world, twice, 0, &g), HR_ERR_INVALID, "0 members");
    EXPECT(hr_group_create(world, twice, hr_group_size(world) > 1 ? 2 : 0, &g),
           HR_ERR_INVALID, "");
    EXPECT(hr_group_create(NULL, twice, 1, &g), HR_ERR_INVALID, "no group");
    return hr_group_status(world);
}

static void bad_lists_are_refused_at_once(void **state)
{
    succeeds_everywhere(bad_lists, NULL);
}

static hr_status lists_differ(hr_group *world, void *arg)
{
    int one[] = {0, 1}, other[] = {1, 2};
    hr_group *g;
    hr_status st =
        hr_group_create(world, hr_group_rank(world) == 2 ? other : one, 2, &g);
    EXPECT(st, HR_ERR_MISMATCH, "rank 0 asks for members 0,1 but rank 2 for 1,2");
    return HR_OK;
}

static void lists_that_differ_are_named(void **state)
{
    fails(3, NULL, lists_differ, NULL, HR_ERR_MISMATCH,
          WORDS("rank 0 asks for members 0,1 but rank 2 for 1,2"));
}

static hr_status one_does_not_create(hr_group *world, void *arg)
{
    hr_group *g;
    if (hr_group_rank(world) == 1) {
        while (hr_group_status(world) == HR_OK)
            sched_yield();
        return HR_OK;
    }
    EXPECT(hr_group_create(world, NULL, 0, &g), HR_ERR_TIMEOUT, "missing: 1");
    CHECK(g == NULL);
    EXPECT(hr_group_create(world, NULL, 0, &g), HR_ERR_TIMEOUT, "missing: 1");
    return HR_OK;
}

static void creation_obeys_the_time_limit(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 0.2};
    fails(3, &o, one_does_not_create, NULL, HR_ERR_TIMEOUT,
          WORDS("group_create", "present: 0,2; missing: 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_groups_know_their_members),
        cmocka_unit_test(release_waits_for_what_is_queued),
        cmocka_unit_test(bad_lists_are_refused_at_once),
        cmocka_unit_test(lists_that_differ_are_named),
        cmocka_unit_test(creation_obeys_the_time_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
