/* Checkpoints: found again, replaced whole, the former one safe whatever happens to the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint.h"
#include "scratch.h"

enum { WEIGHTS = 65536 };
static float weights[WEIGHTS];

static checkpoint_info some_info(int64_t step)
{
    train_options o;
    hr_app_options_train_defaults(&o);
    return (checkpoint_info){.model = o.model, .step = step, .seed = 5};
}

static int64_t seed = 5; /* of the run that writes */

static hr_status write_step(const char *out, int64_t step, int keep)
{
    checkpoint_info info = some_info(step);
    info.seed = seed;
    st_tensor t = {"w", ST_F32, 1, {WEIGHTS}, weights};
    weights[0] = (float)step;
    return hr_app_checkpoint_write(out, &info, keep, &t, 1);
}

/* The step of the checkpoint at `path`, -1 if there is none that is whole. */
static int64_t step_at(const char *path)
{
    checkpoint_info info;
    safetensors *f;
    if (hr_app_checkpoint_open(path, &info, &f) < 0)
        return -1;
    const float *w = hr_app_safetensors_find(f, "w")->data;
    float first;
    memcpy(&first, w, sizeof first);
    hr_app_safetensors_close(f);
    return (int64_t)first == info.step ? info.step : -1;
}

static void it_is_found_by_file_folder_and_output(void **state)
{
    (void)state;
    checkpoint_info info, want = some_info(100);
    safetensors *f;
    assert_int_equal(write_step(hr_scratch_path("a/b/c"), 100, 1), HR_OK);
    static const char *const names[] = {"a/b/c", "a/b/c/checkpoint",
                                        "a/b/c/checkpoint/model.safetensors"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hr_app_checkpoint_open(hr_scratch_path(names[i]), &info, &f),
                         HR_OK);
        assert_memory_equal(&info.model, &want.model, sizeof info.model);
        assert_int_equal(info.step, 100);
        assert_int_equal(info.seed, 5);
        hr_app_safetensors_close(f);
    }
}

static void the_newest_replaces_the_former(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("replace");
    assert_int_equal(write_step(out, 1, 1), HR_OK);
    assert_int_equal(write_step(out, 2, 1), HR_OK);
    assert_int_equal(step_at(out), 2);
    assert_int_not_equal(
        access(hr_scratch_path("replace/checkpoint/model-step-00000001.safetensors"),
               F_OK),
        0);
}

static void as_many_are_kept_as_asked(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("keep");
    for (int step = 1; step <= 5; step++)
        assert_int_equal(write_step(out, step, 3), HR_OK);
    assert_int_equal(step_at(out), 5);
    assert_int_equal(
        step_at(hr_scratch_path("keep/checkpoint/model-step-00000004.safetensors")), 4);
    assert_int_equal(
        step_at(hr_scratch_path("keep/checkpoint/model-step-00000003.safetensors")), 3);
    assert_int_equal(
        step_at(hr_scratch_path("keep/checkpoint/model-step-00000002.safetensors")),
        -1);
    assert_int_equal(write_step(out, 6, 1), HR_OK); /* the others go */
    assert_int_equal(
        step_at(hr_scratch_path("keep/checkpoint/model-step-00000004.safetensors")),
        -1);
}

/* Whether the earlier run's names are met (`before` 2) or are in the way (4). */
static void check_after_earlier_run(const char *name, int before)
{
    const char *out = hr_scratch_path(name);
    for (int step = 1; step <= before; step++)
        assert_int_equal(write_step(out, step, 3), HR_OK);
    seed = 6;
    for (int step = 1; step <= 3; step++)
        assert_int_equal(write_step(out, step, 3), HR_OK);
    seed = 5;
    for (int step = 1; step <= 2; step++) {
        char path[4096];
        checkpoint_info info;
        safetensors *f;
        snprintf(path, sizeof path, "%s/checkpoint/model-step-%08d.safetensors", out,
                 step);
        assert_int_equal(hr_app_checkpoint_open(path, &info, &f), HR_OK);
        assert_int_equal(info.step, step);
        assert_int_equal(info.seed, 6);
        hr_app_safetensors_close(f);
    }
}

static void those_of_an_earlier_run_go_first(void **state)
{
    (void)state;
    check_after_earlier_run("again_short", 2);
    check_after_earlier_run("again_long", 4);
}

static void a_full_disk_leaves_the_former(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("full");
    assert_int_equal(write_step(out, 1, 1), HR_OK);
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = before;
    low.rlim_cur = WEIGHTS; /* a quarter of the file */
    void (*former)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    hr_status st = write_step(out, 2, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, former);
    assert_int_equal(st, HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "model.safetensors"));
    assert_int_equal(step_at(out), 1);
    assert_int_equal(write_step(out, 3, 1), HR_OK);
    assert_int_equal(step_at(out), 3);
}

static void a_folder_that_cannot_be_written_leaves_the_former(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("readonly");
    assert_int_equal(write_step(out, 1, 1), HR_OK);
    const char *folder = hr_scratch_path("readonly/checkpoint");
    assert_int_equal(chmod(folder, 0555), 0);
    if (!hr_scratch_as_nobody(true))
        skip();
    hr_status st = write_step(out, 2, 1);
    hr_status fresh = hr_app_make_folders(hr_scratch_path("readonly/checkpoint/new"));
    assert_true(hr_scratch_as_nobody(false));
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(st, HR_ERR_IO);
    assert_int_equal(fresh, HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "Permission denied"));
    assert_int_equal(step_at(out), 1);
}

static void a_file_in_the_place_of_the_folder_is_named(void **state)
{
    (void)state;
    const char *out = hr_scratch_write("file", "x", 1);
    assert_int_equal(write_step(out, 1, 1), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), out));
    assert_int_equal(hr_app_make_folders(out), HR_ERR_IO);
}

static void truncated_and_tampered_ones_are_refused(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("damaged");
    checkpoint_info info;
    safetensors *f = NULL;
    size_t n;
    assert_int_equal(write_step(out, 1, 1), HR_OK);
    char *bytes =
        hr_scratch_read(hr_scratch_path("damaged/checkpoint/model.safetensors"), &n);
    const char *path = hr_scratch_write("damaged/cut", bytes, n / 2);
    assert_int_equal(hr_app_checkpoint_open(path, &info, &f), HR_ERR_PARSE);
    assert_null(f);
    assert_non_null(strstr(hr_last_error(), path));
    assert_non_null(strstr(hr_last_error(), "truncated"));
    bytes[n / 2] ^= 4;
    path = hr_scratch_write("damaged/bits", bytes, n);
    assert_int_equal(hr_app_checkpoint_open(path, &info, &f), HR_ERR_PARSE);
    assert_non_null(strstr(hr_last_error(), path));
    assert_non_null(strstr(hr_last_error(), "checksum"));
    free(bytes);
}

static void a_file_of_others_is_no_checkpoint(void **state)
{
    (void)state;
    checkpoint_info info;
    safetensors *f;
    st_tensor t = {"w", ST_F32, 1, {WEIGHTS}, weights};
    const char *path = hr_scratch_path("other.safetensors");
    assert_int_equal(hr_app_safetensors_write(path, &t, 1, NULL, 0), HR_OK);
    assert_int_equal(hr_app_checkpoint_open(path, &info, &f), HR_ERR_PARSE);
    assert_non_null(strstr(hr_last_error(), "no checkpoint"));
    st_meta meta[] = {{"headrace.format", "headrace-1"}, {"layers", "many"}};
    assert_int_equal(hr_app_safetensors_write(path, &t, 1, meta, 2), HR_OK);
    assert_int_equal(hr_app_checkpoint_open(path, &info, &f), HR_ERR_PARSE);
    assert_non_null(strstr(hr_last_error(), "'many' as layers"));
    assert_int_equal(hr_app_checkpoint_open(hr_scratch_path("nowhere"), &info, &f),
                     HR_ERR_IO);
}

/* The shape of former files ends with tie-embeddings. */
static void a_file_without_the_key_has_no_multi_token_prediction(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "layers",       "heads", "experts",      "top-k", "expert-width", "dense-width",
        "dense-layers", "seq",   "shared-width", "step",  "seed",         "mtp"};
    enum { KEYS = sizeof keys / sizeof *keys };
    st_meta meta[KEYS + 3] = {
        {"headrace.format", "headrace-1"}, {"tie-embeddings", "1"}, {"width", "2"}};
    st_tensor t = {"w", ST_F32, 1, {WEIGHTS}, weights};
    for (int i = 0; i < KEYS; i++)
        meta[i + 3] = (st_meta){keys[i], "1"};
    const char *path = hr_scratch_path("former.safetensors");
    for (int said = 0; said < 2; said++) {
        checkpoint_info info;
        safetensors *f;
        assert_int_equal(hr_app_safetensors_write(path, &t, 1, meta, KEYS + 2 + said),
                         HR_OK);
        assert_int_equal(hr_app_checkpoint_open(path, &info, &f), HR_OK);
        assert_int_equal(info.model.mtp, said);
        hr_app_safetensors_close(f);
    }
}

static void a_size_that_no_run_can_have_is_refused(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("size");
    checkpoint_info info = some_info(1);
    st_tensor t = {"w", ST_F32, 1, {WEIGHTS}, weights};
    safetensors *f;
    info.model.expert_width = 262145;
    assert_int_equal(hr_app_checkpoint_write(out, &info, 1, &t, 1), HR_OK);
    assert_int_equal(hr_app_checkpoint_open(out, &info, &f), HR_ERR_PARSE);
    assert_non_null(strstr(hr_last_error(), "'262145' as expert-width"));
}

static void another_shape_of_model_is_named(void **state)
{
    (void)state;
    checkpoint_info a = some_info(1), b = some_info(1);
    assert_int_equal(hr_app_checkpoint_check("p", &a.model, &b.model), HR_OK);
    b.model.top_k++;
    assert_int_equal(hr_app_checkpoint_check("p", &a.model, &b.model), HR_ERR_MISMATCH);
    assert_non_null(strstr(hr_last_error(), "--top-k 2, but this run 3"));
    b = a;
    b.model.mtp = 1;
    assert_int_equal(hr_app_checkpoint_check("p", &a.model, &b.model), HR_ERR_MISMATCH);
    assert_non_null(strstr(hr_last_error(), "--mtp off, but this run on"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_found_by_file_folder_and_output),
        cmocka_unit_test(the_newest_replaces_the_former),
        cmocka_unit_test(as_many_are_kept_as_asked),
        cmocka_unit_test(those_of_an_earlier_run_go_first),
        cmocka_unit_test(a_full_disk_leaves_the_former),
        cmocka_unit_test(a_folder_that_cannot_be_written_leaves_the_former),
        cmocka_unit_test(a_file_in_the_place_of_the_folder_is_named),
        cmocka_unit_test(truncated_and_tampered_ones_are_refused),
        cmocka_unit_test(a_file_of_others_is_no_checkpoint),
        cmocka_unit_test(a_file_without_the_key_has_no_multi_token_prediction),
        cmocka_unit_test(a_size_that_no_run_can_have_is_refused),
        cmocka_unit_test(another_shape_of_model_is_named),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
}
