/* A CUDA device that cannot be had says why in one sentence, and leaves nothing behind. */
#include "cuda_kit.h"

static double_api api;

/* Opening fails with these words; returns with the sentence set. */
static void refused(hr_status st, const char *reason, const char *words)
{
    hr_device *dev = (hr_device *)&api;
    assert_int_equal(hr_device_open("cuda", NULL, &dev), st);
    assert_null(dev);
    assert_string_equal(hr_last_reason(), reason);
    if (!strstr(hr_last_error(), words))
        print_error("no '%s' in: %s\n", words, hr_last_error());
    assert_non_null(strstr(hr_last_error(), words));
    assert_null(strchr(hr_last_error(), '\n'));
    assert_nothing_lives(&api);
}

static void every_code_of_the_runtime_has_its_words(void **state)
{
    static const struct {
        int code;
        const char *words;
    } codes[] = {
        {3, "cannot be started"},
        {34, "stub"},
        {35, "older than the CUDA runtime needs"},
        {100, "sees no GPU"},
        {802, "not ready yet"},
        {803, "different versions"},
        {804, "newer than its kernel module"},
        {999, "unknown error"},
        {801, "operation not supported (cudaErrorNotSupported, 801)"},
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        for (int call = 1; call <= 2; call++) { /* the version, the count */
            api.fail_at(call, codes[i].code);
            refused(HR_ERR_UNSUPPORTED, "no_cuda", codes[i].words);
            assert_true(api.failed());
        }
    }
}

static void machine_without_gpus_is_told(void **state)
{
    setenv("HEADRACE_DOUBLE_DEVICES", "0", 1);
    refused(HR_ERR_UNSUPPORTED, "no_cuda", "sees no GPU (cudaErrorNoDevice, 100)");
    setenv("HEADRACE_DOUBLE_DEVICES", "-1", 1);
    refused(HR_ERR_UNSUPPORTED, "no_cuda", "counts no GPU");
    unsetenv("HEADRACE_DOUBLE_DEVICES");
}

static void refused_with_runtime(const char *path, const char *reason,
                                 const char *words)
{
    char before[1024];
    snprintf(before, sizeof before, "%s", getenv("HEADRACE_CUDART"));
    setenv("HEADRACE_CUDART", path, 1);
    refused(HR_ERR_UNSUPPORTED, reason, words);
    setenv("HEADRACE_CUDART", before, 1);
}

static void missing_runtime_is_named(void **state)
{
    refused_with_runtime("/no/such/libcudart.so", "no_cudart", "/no/such/libcudart.so");
}

static void library_that_is_no_runtime_is_named_with_what_it_lacks(void **state)
{
    refused_with_runtime("libm.so.6", "old_cudart",
                         "'libm.so.6' has no function 'cudaDriverGetVersion'");
}

static void kinds_of_memory_are_whole_words(void **state)
{
    const char *kind = getenv("HEADRACE_CUDA_MEMORY");
    char before[32];
    snprintf(before, sizeof before, "%s", kind ? kind : "");
    setenv("HEADRACE_CUDA_MEMORY", "manage", 1);
    refused(HR_ERR_INVALID, "cuda_memory", "no kind 'manage'");
    setenv("HEADRACE_CUDA_MEMORY", before, 1);
}

static void gpu_without_what_is_needed_is_told(void **state)
{
    unsetenv("HEADRACE_CUDA_MEMORY");
    setenv("HEADRACE_DOUBLE_PLAIN", "1", 1);
    refused(HR_ERR_UNSUPPORTED, "no_cuda", "GPU 0 has no memory pools");
    setenv("HEADRACE_CUDA_MEMORY", "managed", 1);
    refused(HR_ERR_UNSUPPORTED, "no_cuda", "GPU 0 has no managed memory");
    unsetenv("HEADRACE_CUDA_MEMORY");
    unsetenv("HEADRACE_DOUBLE_PLAIN");
}

static int load_double(void **state)
{
    api = get_double();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_of_the_runtime_has_its_words),
        cmocka_unit_test(machine_without_gpus_is_told),
        cmocka_unit_test(missing_runtime_is_named),
        cmocka_unit_test(library_that_is_no_runtime_is_named_with_what_it_lacks),
        cmocka_unit_test(kinds_of_memory_are_whole_words),
        cmocka_unit_test(gpu_without_what_is_needed_is_told),
    };
    return cmocka_run_group_tests(tests, load_double, NULL);
}
