/* A checkpoint that speaks of a larger model than it holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/checkpoint_case.h"
#include "support/train_case.h"
#include <string.h>

static void
a_small_file_of_a_giant_model_is_refused_before_memory_is_asked_for(void **state)
{
    train_options o;
    train_case_init(&o, 1, 1, 1);
    float few[8] = {0};
    st_tensor t = {.name = "embedding", .dtype = ST_F32, .ndim = 1, .shape = {8}};
    case_file file = {&t, (const float *const[]){few}, 1};
    checkpoint_info info = {.model = o.model, .step = 1};
    info.model.layers = 1024;
    info.model.experts = 4096;
    info.model.expert_width = 262144;
    assert_int_equal(checkpoint_case_write(o.out, &info, 1, &file, 1), HR_OK);
    sample_options s = {.length = 1};
    snprintf(s.checkpoint, sizeof s.checkpoint, "%s", o.out);
    assert_int_equal(hr_app_sample(&s), HR_ERR_MISMATCH);
    assert_non_null(strstr(hr_last_error(), "parameters"));
    train_case_fini(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_small_file_of_a_giant_model_is_refused_before_memory_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
