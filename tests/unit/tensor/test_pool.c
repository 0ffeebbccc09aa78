/* The free lists behind tensors and functions. */
#include "unit/tensor/tensor_kit.h"

#include "base/recycling.h"
#include "tensor/pool.h"
#include <pthread.h>
#include <stdlib.h>

static void blocks_are_zeroed_each_time(void **state)
{
    for (int round = 0; round < 3; round++) {
        unsigned char *b = hr__pool_get(100);
        for (int i = 0; i < 100; i++)
            assert_int_equal(b[i], 0);
        memset(b, 0xee, 100);
        hr__pool_put(b, 100);
    }
}

static void blocks_are_aligned_for_any_type(void **state)
{
    for (size_t bytes = 1; bytes < 3000; bytes += 37) {
        void *b = hr__pool_get(bytes);
        assert_int_equal((uintptr_t)b % 16, 0);
        memset(b, 0xee, bytes);
        hr__pool_put(b, bytes);
    }
    hr__pool_put(NULL, 8);
}

static void a_steady_state_takes_nothing_new(void **state)
{
    hr__pool_put(hr__pool_get(200), 200);
    size_t idle = hr__pool_idle();
    for (int i = 0; i < 1000; i++) {
        void *b = hr__pool_get(200 - (size_t)(i % 8)); /* one size class */
        hr__pool_put(b, 200);
    }
    assert_int_equal(hr__pool_idle(), idle);
}

static void what_waits_is_bounded(void **state)
{
    enum { N = 5000 };
    void **b = malloc(N * sizeof *b);
    for (int i = 0; i < N; i++)
        b[i] = hr__pool_get(64);
    for (int i = 0; i < N; i++)
        hr__pool_put(b[i], 64);
    free(b);
    assert_true(hr__pool_idle() <= 2048);
}

/* Plans: larger, and of a few sizes only. */
static void a_large_block_serves_the_next_of_its_size(void **state)
{
    unsigned char *b = hr__pool_get(5000);
    uintptr_t was = (uintptr_t)b;
    memset(b, 0xee, 5000);
    hr__pool_put(b, 5000);
    void *other = hr__pool_get(5001);
    b = hr__pool_get(5000);
    assert_true(!HR__RECYCLING || (uintptr_t)b == was);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(b[i], 0);
    hr__pool_put(b, 5000);
    hr__pool_put(other, 5001);
}

static void large_blocks_of_old_sizes_give_way(void **state)
{
    enum { N = 64 };
    void *b[N];
    for (int i = 0; i < N; i++)
        b[i] = hr__pool_get(6000);
    size_t before = hr__pool_idle();
    for (int i = 0; i < N; i++)
        hr__pool_put(b[i], 6000);
    size_t idle = hr__pool_idle();
    assert_true(idle < before + N);
    void *late = hr__pool_get(7000);
    hr__pool_put(late, 7000);
    assert_int_equal(hr__pool_idle(), idle); /* one came, one went */
    hr__pool_put(hr__pool_get(7000), 7000);
    assert_int_equal(hr__pool_idle(), idle);
}

static void *give_back(void *block)
{
    hr__pool_put(block, 64);
    hr__pool_put(hr__pool_get(300), 300);
    return NULL;
}

/* The leak checkers see to it that the lists of the ended thread went with it. */
static void a_block_may_end_on_another_thread(void **state)
{
    pthread_t thread;
    void *b = hr__pool_get(64);
    size_t idle = hr__pool_idle();
    assert_int_equal(pthread_create(&thread, NULL, give_back, b), 0);
    pthread_join(thread, NULL);
    assert_int_equal(hr__pool_idle(), idle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_each_time),
        cmocka_unit_test(blocks_are_aligned_for_any_type),
        cmocka_unit_test(a_steady_state_takes_nothing_new),
        cmocka_unit_test(what_waits_is_bounded),
        cmocka_unit_test(a_large_block_serves_the_next_of_its_size),
        cmocka_unit_test(large_blocks_of_old_sizes_give_way),
        cmocka_unit_test(a_block_may_end_on_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
