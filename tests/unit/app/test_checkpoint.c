/* Checkpoints: found again, replaced whole, the former one safe whatever happens to the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "support/checkpoint_case.h"

enum { WEIGHTS = 65536 };
static float weights[WEIGHTS];

static int entries(const char *name)
{
    int n = 0;
    DIR *dir = opendir(hr_scratch_path(name));
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static checkpoint_info some_info(int64_t step)
{
    train_options o;
    hr_app_options_train_defaults(&o);
    return (checkpoint_info){.model = o.model, .step = step, .seed = 5};
}

static const st_tensor whole = {"w", ST_F32, 1, {WEIGHTS}};
static const float *const whole_data[] = {weights};
static const case_file one_file = {&whole, whole_data, 1};
static int64_t seed = 5; /* of the run that writes */

static hr_status write_step(const char *out, int64_t step, int keep)
{
    checkpoint_info info = some_info(step);
    info.seed = seed;
    weights[0] = (float)step;
    return checkpoint_case_write(out, &info, keep, &one_file, 1);
}

/* The step of the checkpoint at `path`, -1 if there is none that is whole. */
static int64_t step_at(const char *path)
{
    checkpoint_info info;
    checkpoint *c;
    float first = -2;
    if (hr_app_checkpoint_open(path, &info, &c) < 0)
        return -1;
    hr_status st = hr_app_checkpoint_read(c, "w", 1, whole.shape, 0, 1, &first);
    hr_app_checkpoint_close(c);
    return st == HR_OK && (int64_t)first == info.step ? info.step : -1;
}

static void it_is_found_by_index_step_folder_and_output(void **state)
{
    (void)state;
    checkpoint_info info, want = some_info(100);
    checkpoint *f;
    assert_int_equal(write_step(hr_scratch_path("a/b/c"), 100, 1), HR_OK);
    static const char *const names[] = {
        "a/b/c", "a/b/c/checkpoint", "a/b/c/checkpoint/step-00000100",
        "a/b/c/checkpoint/step-00000100/model.safetensors.index.json"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(hr_app_checkpoint_open(hr_scratch_path(names[i]), &info, &f),
                         HR_OK);
        assert_memory_equal(&info.model, &want.model, sizeof info.model);
        assert_int_equal(info.step, 100);
        assert_int_equal(info.seed, 5);
        hr_app_checkpoint_close(f);
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
        access(hr_scratch_path("replace/checkpoint/step-00000001"), F_OK), 0);
}

static void as_many_are_kept_as_asked(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("keep");
    for (int step = 1; step <= 5; step++)
        assert_int_equal(write_step(out, step, 3), HR_OK);
    assert_int_equal(step_at(out), 5);
    assert_int_equal(step_at(hr_scratch_path("keep/checkpoint/step-00000004")), 4);
    assert_int_equal(step_at(hr_scratch_path("keep/checkpoint/step-00000003")), 3);
    assert_int_equal(step_at(hr_scratch_path("keep/checkpoint/step-00000002")), -1);
    assert_int_equal(write_step(out, 6, 1), HR_OK); /* the others go */
    assert_int_equal(step_at(hr_scratch_path("keep/checkpoint/step-00000004")), -1);
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
        checkpoint *f;
        snprintf(path, sizeof path, "%s/checkpoint/step-%08d", out, step);
        assert_int_equal(hr_app_checkpoint_open(path, &info, &f), HR_OK);
        assert_int_equal(info.step, step);
        assert_int_equal(info.seed, 6);
        hr_app_checkpoint_close(f);
    }
}

static void the_same_step_again_takes_the_place_of_the_former(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("same");
    checkpoint_info info;
    checkpoint *f;
    assert_int_equal(write_step(out, 3, 2), HR_OK);
    seed = 6;
    assert_int_equal(write_step(out, 3, 2), HR_OK);
    seed = 5;
    assert_int_equal(step_at(out), 3);
    assert_int_equal(hr_app_checkpoint_open(out, &info, &f), HR_OK);
    assert_int_equal(info.seed, 6);
    hr_app_checkpoint_close(f);
    assert_int_equal(entries("same/checkpoint"), 1);
}

/* Of two drafts that nobody writes any more both go; what somebody writes stays. */
static void what_killed_writers_left_goes_with_the_next_save(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("left");
    checkpoint_draft busy;
    assert_int_equal(write_step(out, 1, 1), HR_OK);
    for (int i = 0; i < 2; i++) {
        char path[4096], file[4200];
        snprintf(path, sizeof path, "%s/checkpoint/step-00000007.tmp-1-%d", out, i);
        snprintf(file, sizeof file, "%s/model-00001-of-00002.safetensors", path);
        assert_int_equal(hr_app_make_folders(path), HR_OK);
        FILE *f = fopen(file, "w");
        assert_non_null(f);
        fclose(f);
    }
    assert_int_equal(entries("left/checkpoint"), 3);
    assert_int_equal(step_at(out), 1);
    assert_int_equal(hr_app_draft_begin(out, 8, &busy), HR_OK);
    assert_int_equal(entries("left/checkpoint"), 2);
    assert_int_equal(write_step(out, 2, 1), HR_OK);
    assert_int_equal(entries("left/checkpoint"), 2);
    hr_app_draft_discard(&busy);
    assert_int_equal(entries("left/checkpoint"), 1);
    assert_int_equal(step_at(out), 2);
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
    assert_non_null(strstr(hr_last_error(), "model-00001-of-00001.safetensors"));
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

static void a_file_of_others_is_no_checkpoint(void **state)
{
    (void)state;
    checkpoint_info info;
    checkpoint *f;
    static const char *const texts[] = {
        "", "[]", "{}", "{\"metadata\":{}}",
        "{\"metadata\":{\"total_size\":4},\"weight_map\":{\"w\":\"a.safetensors\"}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *path = hr_scratch_write("other.json", texts[i], strlen(texts[i]));
        assert_int_equal(hr_app_checkpoint_open(path, &info, &f), HR_ERR_PARSE);
        assert_null(f);
        assert_non_null(strstr(hr_last_error(), path));
    }
    assert_int_equal(hr_app_checkpoint_open(hr_scratch_path("nowhere"), &info, &f),
                     HR_ERR_IO);
    assert_int_equal(hr_app_make_folders(hr_scratch_path("empty")), HR_OK);
    assert_int_equal(hr_app_checkpoint_open(hr_scratch_path("empty"), &info, &f),
                     HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "no checkpoint in"));
}

static void a_size_that_no_run_can_have_is_refused(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("size");
    checkpoint_info info = some_info(1);
    checkpoint *f;
    info.model.expert_width = 262145;
    assert_int_equal(checkpoint_case_write(out, &info, 1, &one_file, 1), HR_OK);
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
        cmocka_unit_test(it_is_found_by_index_step_folder_and_output),
        cmocka_unit_test(the_newest_replaces_the_former),
        cmocka_unit_test(as_many_are_kept_as_asked),
        cmocka_unit_test(the_same_step_again_takes_the_place_of_the_former),
        cmocka_unit_test(what_killed_writers_left_goes_with_the_next_save),
        cmocka_unit_test(those_of_an_earlier_run_go_first),
        cmocka_unit_test(a_full_disk_leaves_the_former),
        cmocka_unit_test(a_folder_that_cannot_be_written_leaves_the_former),
        cmocka_unit_test(a_file_in_the_place_of_the_folder_is_named),
        cmocka_unit_test(a_file_of_others_is_no_checkpoint),
        cmocka_unit_test(a_size_that_no_run_can_have_is_refused),
        cmocka_unit_test(another_shape_of_model_is_named),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
}
