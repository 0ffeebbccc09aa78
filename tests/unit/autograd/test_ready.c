/* The heap of ready functions: newest first, whatever the order of pushes. */
#include "unit/autograd/autograd_kit.h"

#include "autograd/ready.h"
#include <stdlib.h>

enum { N = 1000 };

static void the_newest_comes_first(void **state)
{
    hr_function *fn = calloc(N, sizeof *fn), *top = NULL;
    for (int i = 0; i < N; i++)
        fn[i].seq = (uint64_t)i;
    for (int i = 0; i < N; i++)
        hr__ready_push(&top, &fn[(i * 387) % N]);
    for (int i = N - 1; i >= 0; i--)
        assert_ptr_equal(hr__ready_pop(&top), &fn[i]);
    assert_null(hr__ready_pop(&top));
    free(fn);
}

static void pushes_between_pops_find_their_place(void **state)
{
    hr_function *fn = calloc(N, sizeof *fn), *top = NULL;
    uint32_t x = 12345;
    int inside[N] = {0};
    for (int i = 0; i < N; i++)
        fn[i].seq = (uint64_t)i;
    for (int round = 0; round < 20000; round++) {
        x = x * 1664525U + 1013904223U;
        int i = (int)((x >> 8) % N), newest = N - 1;
        if (x >> 31 && !inside[i]) {
            hr__ready_push(&top, &fn[i]);
            inside[i] = 1;
            continue;
        }
        while (newest >= 0 && !inside[newest])
            newest--;
        assert_ptr_equal(hr__ready_pop(&top), newest < 0 ? NULL : &fn[newest]);
        if (newest >= 0)
            inside[newest] = 0;
    }
    free(fn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_comes_first),
        cmocka_unit_test(pushes_between_pops_find_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
