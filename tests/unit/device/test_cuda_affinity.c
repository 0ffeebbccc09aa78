/* A rank on a CUDA device of the double moves to the CPUs near its GPU: bus address from the runtime, CPUs
 * from a sysfs of the test's own. */
#include "cuda_kit.h"

#include "pipeline/affinity.h"
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

static int last_cpu(const cpu_set_t *s)
{
    int last = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, s))
            last = cpu;
    return last;
}

/* root/bus/pci/devices/<bus id>/local_cpulist */
static void write_sysfs(const char *root, int cpu)
{
    static const char *const parts[] = {"bus", "pci", "devices", "0000:3b:00.0"};
    char path[256];
    int n = snprintf(path, sizeof path, "%s", root);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        n += snprintf(path + n, sizeof path - (size_t)n, "/%s", parts[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path + n, sizeof path - (size_t)n, "/local_cpulist");
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fprintf(to, "%d\n", cpu);
    assert_int_equal(fclose(to), 0);
}

static void rank_moves_to_the_cpus_near_its_gpu(void **state)
{
    char root[] = "/tmp/headrace_sysfs_XXXXXX", remove[64];
    hr_device *dev;
    cpu_set_t before, after;
    assert_non_null(mkdtemp(root));
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int cpu = last_cpu(&before);
    write_sysfs(root, cpu);
    OK(hr_device_open("cuda", NULL, &dev));
    OK(hr__affinity_set(dev, &(hr__affinity_from){root, "no such library"}));
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_int_equal(CPU_COUNT(&after), 1);
    assert_true(CPU_ISSET(cpu, &after));
    hr_device_close(dev);
    snprintf(remove, sizeof remove, "rm -r %s", root);
    assert_int_equal(system(remove), 0); /* NOLINT: a path of our own */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_moves_to_the_cpus_near_its_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
