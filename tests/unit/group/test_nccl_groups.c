/* Operations of groups over NCCL on memory of the GPU, which the host cannot touch. */
#include "nccl_kit.h"

enum { COUNT = 1000 };

static hr_status sums(hr_group *g, void *arg)
{
    float x[COUNT], sum[COUNT];
    void *at;
    int n = hr_group_size(g), me = hr_group_rank(g);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(me * i);
    TRY(on_gpu(x, sizeof x, &at));
    TRY(hr_all_reduce(g, at, at, COUNT, HR_F32, HR_SUM, hr_stream_current()));
    TRY(from_gpu(sum, at, sizeof sum));
    for (int i = 0; i < COUNT; i++)
        CHECK(sum[i] == (float)(n * (n - 1) / 2 * i));
    hr_mem_free(at, hr_stream_current());
    return HR_OK;
}

static void a_sum_over_ranks_stays_on_the_gpus(void **state)
{
    for (int n = 1; n <= 4; n++)
        succeeds(n, sums, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_over_ranks_stays_on_the_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
