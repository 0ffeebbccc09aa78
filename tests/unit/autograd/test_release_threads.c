/* Handles and graphs that are given up on other threads than the one that made them. */
#include "unit/autograd/autograd_kit.h"

#include <pthread.h>

enum { TENSORS = 200, THREADS = 4 };

static hr_tensor *shared[TENSORS];
static hr_tensor *view[TENSORS];
static hr_storage *storage[TENSORS];

static void *release_one_handle_each(void *unused)
{
    for (int i = 0; i < TENSORS; i++) {
        hr_tensor_release(shared[i]);
        hr_storage_release(storage[i]);
    }
    return NULL;
}

static void run_threads(void *(*fn)(void *), int n)
{
    pthread_t thread[THREADS];
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fn, NULL), 0);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

/* The issuing thread gave up the bytes; whoever is last frees the records. */
static void handles_are_released_from_many_threads(void **state)
{
    for (int i = 0; i < TENSORS; i++) {
        shared[i] = LEAF(1, 2, 3);
        storage[i] = hr_tensor_storage(shared[i]);
        for (int k = 1; k < THREADS; k++)
            hr_tensor_retain(shared[i]);
        for (int k = 0; k < THREADS; k++)
            hr_storage_retain(storage[i]);
        hr_tensor_drop(shared[i], NULL);
    }
    assert_int_equal(kit_live(), 0);
    run_threads(release_one_handle_each, THREADS);
}

static void *release_views(void *unused)
{
    for (int i = 0; i < TENSORS; i++)
        hr_tensor_release(view[i]);
    return NULL;
}

static void *release_bases(void *unused)
{
    for (int i = 0; i < TENSORS; i++)
        hr_tensor_release(shared[i]);
    return NULL;
}

static void a_view_and_its_base_go_on_different_threads(void **state)
{
    pthread_t a, b;
    for (int i = 0; i < TENSORS; i++) {
        shared[i] = KIT_TENSOR(1, 2);
        kit_ok(hr_tensor_view(shared[i], 1, hr_tensor_shape(shared[i]), &view[i]));
        hr_tensor_drop(shared[i], NULL);
        hr_tensor_drop(view[i], NULL);
    }
    assert_int_equal(pthread_create(&a, NULL, release_views, NULL), 0);
    assert_int_equal(pthread_create(&b, NULL, release_bases, NULL), 0);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
}

static void *release_graphs(void *unused)
{
    for (int i = 0; i < TENSORS; i++)
        hr_tensor_release(shared[i]);
    return NULL;
}

/* A rank's thread has ended, and another one gives up what it left, bytes and all. */
static void a_graph_left_behind_goes_on_another_thread(void **state)
{
    hr_tensor *x = LEAF(1, 2);
    for (int i = 0; i < TENSORS; i++) {
        hr_tensor *y = scale(x, 2);
        shared[i] = scale(y, 3);
        hr_tensor_release(y);
    }
    hr_tensor_release(x);
    run_threads(release_graphs, 1);
    assert_int_equal(kit_live(), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, autograd_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(handles_are_released_from_many_threads),
        T(a_view_and_its_base_go_on_different_threads),
        T(a_graph_left_behind_goes_on_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
