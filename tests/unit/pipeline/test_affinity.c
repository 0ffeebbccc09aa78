/* A rank moves to the CPUs near its device, within those that it may use; or stays, and says why.
 * Machines have few CPUs and no GPU where this runs: GPU, sysfs and NVML are test doubles, and the
 * output says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/device_ops.h"
#include "pipeline/affinity.h"
#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUS "0000:3b:00.0"
enum { FAR_CPU = 1000 }; /* no machine here has it */

static cpu_set_t mask(void)
{
    cpu_set_t s;
    assert_int_equal(sched_getaffinity(0, sizeof s, &s), 0);
    return s;
}

static cpu_set_t only(int cpu)
{
    cpu_set_t s;
    CPU_ZERO(&s);
    CPU_SET(cpu, &s);
    return s;
}

/* The first and the second CPU that may be used; -1. */
static int nth_cpu(const cpu_set_t *s, int nth)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, s) && nth-- == 0)
            return cpu;
    return -1;
}

static bool needs_two(void)
{
    cpu_set_t m = mask();
    if (CPU_COUNT(&m) >= 2)
        return false;
    print_message("skipped: one CPU leaves no choice\n");
    return true;
}

/* ---- a GPU that is none ---- */
static char bus_of_double[64];

static hr_status pci_of_double(hr_device *dev, char *out, size_t cap)
{
    snprintf(out, cap, "%s", bus_of_double);
    return HR_OK;
}

static hr_status refusing_bind(hr_device *dev, const cpu_set_t *cpus)
{
    return hr_fail(HR_ERR_DEVICE, "affinity_refused", "test double");
}

typedef struct fixture {
    char root[64]; /* of the sysfs double */
    cpu_set_t before;
    hr_device *dev;
    hr_device_ops ops;
    const hr_device_ops *real;
    hr__affinity_from from;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    snprintf(f->root, sizeof f->root, "/tmp/headrace_sysfs_XXXXXX");
    assert_non_null(mkdtemp(f->root));
    f->before = mask();
    assert_int_equal(hr_device_open("host", NULL, &f->dev), HR_OK);
    f->real = f->dev->ops;
    f->ops = *f->real;
    f->ops.pci_bus_id = pci_of_double;
    f->dev->ops = &f->ops;
    f->from = (hr__affinity_from){f->root, "no such library"};
    snprintf(bus_of_double, sizeof bus_of_double, "0000:3B:00.0");
    *state = f;
    return 0;
}

static int take_down(void **state)
{
    fixture *f = *state;
    char cmd[128];
    f->dev->ops = f->real;
    hr_device_close(f->dev);
    snprintf(cmd, sizeof cmd, "rm -r %s", f->root);
    int rc = system(cmd); /* NOLINT: a path of our own */
    rc |= sched_setaffinity(0, sizeof f->before, &f->before);
    unsetenv("FAKE_NVML");
    free(f);
    return rc;
}

static void write_list(const fixture *f, const char *list)
{
    char path[256];
    static const char *const steps[] = {"/bus", "/bus/pci", "/bus/pci/devices",
                                        ("/bus/pci/devices/" BUS)};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s%s", f->root, steps[i]);
        (void)mkdir(path, 0700);
    }
    snprintf(path, sizeof path, "%s/bus/pci/devices/" BUS "/local_cpulist", f->root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(list, file);
    fclose(file);
    print_message("test double: a GPU at " BUS " near CPUs %s\n", list);
}

static void expect_left_alone(fixture *f, hr_status st, const char *reason)
{
    cpu_set_t before = mask();
    assert_int_equal(hr__affinity_set(f->dev, &f->from), st);
    assert_string_equal(hr_last_reason(), reason);
    assert_true(hr_last_error()[0] != '\0');
    cpu_set_t after = mask();
    assert_true(CPU_EQUAL(&after, &before));
}

static hr_status look(const void *args, hr_team *team)
{
    cpu_set_t *const *to = args;
    return sched_getaffinity(0, sizeof **to, *to) == 0 ? HR_OK : HR_ERR_DEVICE;
}

static cpu_set_t mask_of_stream(hr_stream *s)
{
    cpu_set_t seen, *to = &seen;
    assert_int_equal(hr_launch(s, "look", look, &to, sizeof to, NULL, 0), HR_OK);
    assert_int_equal(hr_stream_synchronize(s), HR_OK);
    return seen;
}

/* ---- GPUs ---- */
static void thread_and_streams_move_near_the_gpu(void **state)
{
    fixture *f = *state;
    char list[64];
    int cpu = nth_cpu(&f->before, 1);
    if (needs_two())
        skip();
    snprintf(list, sizeof list, "%d,%d\n", cpu, FAR_CPU);
    write_list(f, list);
    assert_int_equal(hr__affinity_set(f->dev, &f->from), HR_OK);
    cpu_set_t want = only(cpu), now = mask();
    cpu_set_t stream = mask_of_stream(hr_device_default_stream(f->dev));
    assert_true(CPU_EQUAL(&now, &want)); /* and not the far one, which was not given */
    assert_true(CPU_EQUAL(&stream, &want));
    assert_int_equal(hr__affinity_set(f->dev, &f->from), HR_OK); /* stays */
}

static void a_gpu_near_other_cpus_moves_nothing(void **state)
{
    fixture *f = *state;
    write_list(f, "1000-1003\n");
    expect_left_alone(f, HR_ERR_UNSUPPORTED, "affinity_elsewhere");
    assert_non_null(strstr(hr_last_error(), "1000-1003"));
}

static void nobody_knowing_moves_nothing_and_names_all_three(void **state)
{
    fixture *f = *state;
    expect_left_alone(f, HR_ERR_UNSUPPORTED, "affinity_unknown");
    assert_non_null(strstr(hr_last_error(), "sysfs: no "));
    assert_non_null(strstr(hr_last_error(), "hwloc: "));
    assert_non_null(strstr(hr_last_error(), "NVML: "));
    write_list(f, "all of them\n");
    expect_left_alone(f, HR_ERR_UNSUPPORTED, "affinity_unknown");
    assert_non_null(strstr(hr_last_error(), "no list of CPUs"));
    write_list(f, "\n");
    expect_left_alone(f, HR_ERR_UNSUPPORTED, "affinity_unknown");
    assert_non_null(strstr(hr_last_error(), "empty list"));
}

static void a_bad_address_moves_nothing(void **state)
{
    static const char *const bad[] = {"",          "3b:00.0",       "0000:3b:00",
                                      "gpu0",      "0000:3b:00.0 ", "0000:3b:00.0/..",
                                      "-1:3b:0.0", "../../0:0:0.0", " 0:3b:00.0"};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(bus_of_double, sizeof bus_of_double, "%s", bad[i]);
        expect_left_alone(f, HR_ERR_PARSE, "pci_bus_id");
    }
}

static void a_stream_that_cannot_move_keeps_its_thread_back(void **state)
{
    fixture *f = *state;
    char list[32];
    snprintf(list, sizeof list, "%d", nth_cpu(&f->before, 0));
    write_list(f, list);
    f->ops.bind = refusing_bind;
    expect_left_alone(f, HR_ERR_DEVICE, "affinity_refused");
}

static void nvml_is_asked_last(void **state)
{
    fixture *f = *state;
    cpu_set_t near;
    f->from.nvml = FAKE_NVML;
    print_message("test double: NVML, one device near CPU 0\n");
    assert_int_equal(hr__affinity_near(&f->from, BUS, &near), HR_OK);
    cpu_set_t zero = only(0);
    assert_true(CPU_EQUAL(&near, &zero));
    write_list(f, "7");
    assert_int_equal(hr__affinity_near(&f->from, BUS, &near), HR_OK);
    cpu_set_t seven = only(7);
    assert_true(CPU_EQUAL(&near, &seven));
}

static void nvml_that_fails_moves_nothing(void **state)
{
    static const struct {
        const char *what, *said;
    } cases[] = {{"init", "Driver Not Loaded"},
                 {"handle", "Not Found"},
                 {"empty", "an empty set"}};
    fixture *f = *state;
    f->from.nvml = FAKE_NVML;
    for (int i = 0; i < 3; i++) {
        setenv("FAKE_NVML", cases[i].what, 1);
        expect_left_alone(f, HR_ERR_UNSUPPORTED, "affinity_unknown");
        assert_non_null(strstr(hr_last_error(), cases[i].said));
    }
}

static void a_library_that_is_not_nvml_moves_nothing(void **state)
{
    fixture *f = *state;
    f->from.nvml = "libm.so.6";
    expect_left_alone(f, HR_ERR_UNSUPPORTED, "affinity_unknown");
    assert_non_null(strstr(hr_last_error(), "lacks a function"));
}

/* hwloc reads the real machine: what it says of a real PCI device is what the real sysfs says. */
static void hwloc_knows_what_sysfs_knows(void **state)
{
    fixture *f = *state;
    hr__affinity_from real = {"/sys", "no such library"};
    cpu_set_t a, b;
    bool found = false;
    DIR *d = opendir("/sys/bus/pci/devices");
    for (struct dirent *e; d && !found && (e = readdir(d)) != NULL;)
        found = e->d_name[0] != '.' &&
                hr__affinity_near(&f->from, e->d_name, &a) == HR_OK &&
                hr__affinity_near(&real, e->d_name, &b) == HR_OK;
    if (d)
        closedir(d);
    if (!found) {
        print_message("skipped: no PCI device that hwloc knows\n");
        skip();
    }
    /* hwloc does not list CPUs that this process may not use */
    CPU_AND(&b, &b, &a);
    assert_true(CPU_EQUAL(&a, &b));
}

/* ---- host devices ---- */
static void ranks_of_host_devices_take_shares(void **state)
{
    fixture *f = *state;
    if (needs_two())
        skip();
    for (int rank = 0; rank < 2; rank++) {
        hr_device *dev;
        hr_device_opts o = {HR_INIT(hr_device_opts), .rank = rank, .cores = 1};
        assert_int_equal(hr_device_open("host", &o, &dev), HR_OK);
        hr_device_set_current(dev);
        assert_int_equal(hr_set_ideal_affinity_for_current_gpu(), HR_OK);
        cpu_set_t now = mask(), stream = mask_of_stream(hr_stream_current());
        assert_int_equal(CPU_COUNT(&now), 1);
        assert_true(CPU_EQUAL(&now, &stream));
        if (CPU_COUNT(&f->before) == 2)
            assert_true(CPU_ISSET(nth_cpu(&f->before, rank), &now));
        hr_device_close(dev);
        assert_int_equal(sched_setaffinity(0, sizeof f->before, &f->before), 0);
    }
}

enum { TEAM = 3 };

typedef struct team_look {
    atomic_int arrived;
    cpu_set_t seen[TEAM];
} team_look;

/* A part ends when all have begun, so that each has a thread of its own. */
static hr_status look_part(void *arg, int i)
{
    team_look *l = arg;
    int64_t give_up = hr_now_ns() + (int64_t)60e9;
    atomic_fetch_add(&l->arrived, 1);
    while (atomic_load(&l->arrived) < TEAM)
        if (hr_now_ns() > give_up)
            return hr_fail(HR_ERR_TIMEOUT, NULL, "a helper of the team did not come");
    return sched_getaffinity(0, sizeof l->seen[i], &l->seen[i]) == 0 ? HR_OK
                                                                     : HR_ERR_DEVICE;
}

static hr_status look_with_team(const void *args, hr_team *team)
{
    team_look *const *l = args;
    return hr_team_run(team, TEAM, look_part, *l);
}

static void look_at_team(hr_stream *s, team_look *l)
{
    *l = (team_look){0};
    assert_int_equal(hr_launch(s, "look", look_with_team, &l, sizeof l, NULL, 0),
                     HR_OK);
    assert_int_equal(hr_stream_synchronize(s), HR_OK);
}

/* Helpers that have started move too. */
static void helpers_of_a_team_move_along(void **state)
{
    fixture *f = *state;
    static team_look l;
    cpu_set_t narrow = only(nth_cpu(&f->before, 0));
    hr_device *dev;
    hr_device_opts o = {HR_INIT(hr_device_opts), .cores = TEAM};
    assert_int_equal(hr_device_open("host", &o, &dev), HR_OK);
    look_at_team(hr_device_default_stream(dev), &l);
    assert_int_equal(dev->ops->bind(dev, &narrow), HR_OK);
    look_at_team(hr_device_default_stream(dev), &l);
    for (int i = 0; i < TEAM; i++)
        assert_true(CPU_EQUAL(&l.seen[i], &narrow));
    hr_device_close(dev);
}

static void a_device_whose_threads_cannot_be_bound_keeps_them(void **state)
{
    fixture *f = *state;
    cpu_set_t nowhere = only(FAR_CPU);
    assert_int_equal(f->dev->ops->bind(f->dev, &nowhere), HR_ERR_DEVICE);
    assert_string_equal(hr_last_reason(), "affinity_refused");
    cpu_set_t stream = mask_of_stream(hr_device_default_stream(f->dev));
    assert_true(CPU_EQUAL(&stream, &f->before));
}

static void a_rank_without_a_share_stays(void **state)
{
    fixture *f = *state;
    hr_device_opts o = {HR_INIT(hr_device_opts), .rank = 4000, .cores = 1};
    hr_device *dev = f->dev;
    if (needs_two())
        skip();
    assert_int_equal(hr_device_open("host", &o, &f->dev), HR_OK);
    expect_left_alone(f, HR_ERR_UNSUPPORTED, "too_few_cpus");
    hr_device_close(f->dev);
    f->dev = dev;
}

static void a_rank_that_was_given_no_more_than_its_cores_stays(void **state)
{
    fixture *f = *state;
    hr_device_opts o = {HR_INIT(hr_device_opts), .rank = 7, .cores = 4096};
    hr_device *dev;
    assert_int_equal(hr_device_open("host", &o, &dev), HR_OK);
    hr_device_set_current(dev);
    assert_int_equal(hr_set_ideal_affinity_for_current_gpu(), HR_OK);
    cpu_set_t now = mask();
    assert_true(CPU_EQUAL(&now, &f->before));
    hr_device_close(dev);
}

static void without_a_device_nothing_moves(void **state)
{
    hr_device_set_current(NULL);
    assert_int_equal(hr_set_ideal_affinity_for_current_gpu(), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), "no_device");
}

/* ---- lists of CPUs ---- */
static void lists_of_the_kernel_are_read(void **state)
{
    static const char *const lists[] = {"0",          "0-3",        "0-3,8",
                                        "5,7,9-1023", "0,2-3,1023", "none"};
    cpu_set_t s;
    char back[64];
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char text[64];
        bool none = strcmp(lists[i], "none") == 0;
        snprintf(text, sizeof text, "%s\n", none ? "" : lists[i]);
        assert_int_equal(hr__cpu_list_parse(text, &s), HR_OK);
        hr__cpu_list_print(&s, back, sizeof back);
        assert_string_equal(back, lists[i]);
    }
    hr__cpu_list_parse("0,2,4,6", &s);
    hr__cpu_list_print(&s, back, 4); /* cut short, not beyond */
    assert_string_equal(back, "0,2");
}

static void what_is_no_list_is_refused(void **state)
{
    static const char *const bad[] = {",",
                                      "0,",
                                      ",0",
                                      "0-",
                                      "-3",
                                      "3-1",
                                      "0 -3",
                                      " 0",
                                      "0 ",
                                      "a",
                                      "0x1",
                                      "0,,2",
                                      "0-3-5",
                                      "1024",
                                      "0-1024",
                                      "0-3:1",
                                      "3,1",
                                      "1,1",
                                      "0-3,2",
                                      "\n\n",
                                      "0\n\n",
                                      "0\n1",
                                      "99999999999999999999",
                                      "+1",
                                      "0;1"};
    cpu_set_t s;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hr__cpu_list_parse(bad[i], &s), HR_ERR_PARSE);
        assert_string_equal(hr_last_reason(), "cpu_list");
        assert_int_equal(CPU_COUNT(&s), 0);
    }
}

#define WITH_DOUBLES(test) cmocka_unit_test_setup_teardown(test, set_up, take_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DOUBLES(thread_and_streams_move_near_the_gpu),
        WITH_DOUBLES(a_gpu_near_other_cpus_moves_nothing),
        WITH_DOUBLES(nobody_knowing_moves_nothing_and_names_all_three),
        WITH_DOUBLES(a_bad_address_moves_nothing),
        WITH_DOUBLES(a_stream_that_cannot_move_keeps_its_thread_back),
        WITH_DOUBLES(nvml_is_asked_last),
        WITH_DOUBLES(nvml_that_fails_moves_nothing),
        WITH_DOUBLES(a_library_that_is_not_nvml_moves_nothing),
        WITH_DOUBLES(hwloc_knows_what_sysfs_knows),
        WITH_DOUBLES(ranks_of_host_devices_take_shares),
        WITH_DOUBLES(helpers_of_a_team_move_along),
        WITH_DOUBLES(a_device_whose_threads_cannot_be_bound_keeps_them),
        WITH_DOUBLES(a_rank_without_a_share_stays),
        WITH_DOUBLES(a_rank_that_was_given_no_more_than_its_cores_stays),
        cmocka_unit_test(without_a_device_nothing_moves),
        cmocka_unit_test(lists_of_the_kernel_are_read),
        cmocka_unit_test(what_is_no_list_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
