/* The real NCCL: it has every function that is called, and without a driver it is off, in one sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "group/nccl/nccl_library.h"
#include "headrace/group_nccl.h"

#include <string.h>

static void every_function_is_there(void **state)
{
    const hr__nccl *lib, *again;
    if (hr__nccl_load(&lib) < 0)
        fail_msg("%s", hr_last_error());
    assert_int_equal(hr__nccl_load(&again), HR_OK);
    assert_ptr_equal(lib, again);
    assert_null(lib->double_of);
    assert_true(lib->version >= NCCL_VERSION(2, 27, 0));
}

static void without_a_driver_it_is_off_and_says_why(void **state)
{
    const char *why = NULL;
    if (hr_nccl_library(&why)) /* here is a GPU */
        skip();
    assert_non_null(strstr(why, "off, because"));
}

static void failures_are_told_in_its_words(void **state)
{
    const hr__nccl *lib;
    assert_int_equal(hr__nccl_load(&lib), HR_OK);
    assert_int_equal(hr__nccl_status(lib, ncclInProgress, NULL, "call"), HR_OK);
    assert_int_equal(hr__nccl_status(lib, ncclInvalidUsage, NULL, "ncclSend"),
                     HR_ERR_DEVICE);
    assert_string_equal(hr_last_reason(), "nccl");
    assert_non_null(strstr(hr_last_error(), "ncclSend: invalid usage"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_there),
        cmocka_unit_test(without_a_driver_it_is_off_and_says_why),
        cmocka_unit_test(failures_are_told_in_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
