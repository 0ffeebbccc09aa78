/* The real cuBLAS: it has every function that is called, and without a driver it says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/cuda/cublas_load.h"

#include <string.h>

static void every_function_is_there(void **state)
{
    const hr__cublas *blas, *again;
    if (hr__cublas_load(&blas) < 0)
        fail_msg("%s", hr_last_error());
    assert_int_equal(hr__cublas_load(&again), HR_OK);
    assert_ptr_equal(blas, again);
    assert_non_null(blas->cublasGemmEx);
}

static void without_a_driver_a_handle_is_refused_in_words(void **state)
{
    const hr__cublas *blas;
    cublasHandle_t handle = NULL;
    assert_int_equal(hr__cublas_load(&blas), HR_OK);
    cublasStatus_t e = blas->cublasCreate_v2(&handle);
    if (e == CUBLAS_STATUS_SUCCESS) { /* here is a GPU */
        (void)blas->cublasDestroy_v2(handle);
        skip();
    }
    assert_int_equal(hr__cublas_status(blas, e, "cublasCreate"), HR_ERR_DEVICE);
    assert_string_equal(hr_last_reason(), "cublas");
    assert_non_null(strstr(hr_last_error(), "cublasCreate: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_there),
        cmocka_unit_test(without_a_driver_a_handle_is_refused_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
