/* Which CPUs are near the device at a PCI address. Three who may know, asked in turn: the kernel's
 * sysfs, hwloc (which reads more than that), and the GPU's own library, if it can be loaded. */
#include "pipeline/affinity.h"

#include <ctype.h>
#include <dlfcn.h>
#include <hwloc.h>
#include <string.h>

#include "base/try.h"

enum { WHY = 192, NVML_WORDS = CPU_SETSIZE / (8 * sizeof(unsigned long)) };

_Static_assert(sizeof(cpu_set_t) == NVML_WORDS * sizeof(unsigned long),
               "a set of CPUs is an array of words");

typedef struct pci_address {
    unsigned domain, bus, dev, function;
} pci_address;

/* "0000:3B:00.0"; NVML's domains have eight digits. */
static hr_status read_address(const char *bus_id, pci_address *a)
{
    int end = 0;
    if (sscanf(bus_id, "%8x:%2x:%2x.%1x%n", &a->domain, &a->bus, &a->dev, &a->function,
               &end) == 4 &&
        end > 0 && bus_id[end] == '\0' && isxdigit((unsigned char)bus_id[0]))
        return HR_OK;
    return hr_fail(HR_ERR_PARSE, "pci_bus_id", "'%.40s' is no PCI address", bus_id);
}

/* ---- sysfs ---- */
static bool by_sysfs(const char *root, const pci_address *a, cpu_set_t *out, char *why)
{
    char path[512], text[4096];
    snprintf(path, sizeof path, "%s/bus/pci/devices/%04x:%02x:%02x.%x/local_cpulist",
             root, a->domain, a->bus, a->dev, a->function);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        snprintf(why, WHY, "no %.170s", path);
        return false;
    }
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    if (strlen(text) != n || hr__cpu_list_parse(text, out) < 0) {
        snprintf(why, WHY, "%.170s is no list of CPUs", path);
        return false;
    }
    snprintf(why, WHY, "an empty list");
    return CPU_COUNT(out) > 0;
}

/* ---- hwloc ---- */
static void copy_cpus(hwloc_const_bitmap_t from, cpu_set_t *to)
{
    CPU_ZERO(to);
    for (int cpu = hwloc_bitmap_first(from); cpu >= 0 && cpu < CPU_SETSIZE;
         cpu = hwloc_bitmap_next(from, cpu))
        CPU_SET(cpu, to);
}

static bool by_hwloc(const pci_address *a, cpu_set_t *out, char *why)
{
    hwloc_topology_t t;
    hwloc_obj_t obj = NULL;
    CPU_ZERO(out);
    snprintf(why, WHY, "cannot read the machine");
    if (hwloc_topology_init(&t) != 0)
        return false;
    /* The kernel knows the bus; hwloc's plugin for it loads another library, which leaks. */
    (void)hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                        "pci");
    if (hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING) == 0 &&
        hwloc_topology_set_type_filter(t, HWLOC_OBJ_PCI_DEVICE,
                                       HWLOC_TYPE_FILTER_KEEP_ALL) == 0 &&
        hwloc_topology_load(t) == 0) {
        snprintf(why, WHY, "no such PCI device");
        obj = hwloc_get_pcidev_by_busid(t, a->domain, a->bus, a->dev, a->function);
    }
    if (obj)
        obj = hwloc_get_non_io_ancestor_obj(t, obj);
    if (obj)
        copy_cpus(obj->cpuset, out);
    hwloc_topology_destroy(t);
    return CPU_COUNT(out) > 0;
}

/* ---- NVML, by our own prototypes: the toolkit has no header of it ---- */
typedef struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int rc);
    int (*handle)(const char *bus_id, void **dev);
    int (*cpus)(void *dev, unsigned words, unsigned long *set);
} nvml;

static bool find(void *lib, const char *name, void *slot)
{
    void *p = dlsym(lib, name);
    memcpy(slot, &p, sizeof p);
    return p != NULL;
}

static bool find_all(void *lib, nvml *n)
{
    return find(lib, "nvmlInit_v2", &n->init) &&
           find(lib, "nvmlShutdown", &n->shutdown) &&
           find(lib, "nvmlErrorString", &n->error_string) &&
           find(lib, "nvmlDeviceGetHandleByPciBusId_v2", &n->handle) &&
           find(lib, "nvmlDeviceGetCpuAffinity", &n->cpus);
}

static bool by_nvml(const char *name, const char *bus_id, cpu_set_t *out, char *why)
{
    nvml n;
    void *dev = NULL;
    unsigned long words[NVML_WORDS] = {0};
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        snprintf(why, WHY, "%.170s", dlerror());
        return false;
    }
    if (!find_all(lib, &n)) {
        snprintf(why, WHY, "%.100s lacks a function", name);
        dlclose(lib);
        return false;
    }
    int rc = n.init();
    bool ready = rc == 0;
    if (rc == 0)
        rc = n.handle(bus_id, &dev);
    if (rc == 0)
        rc = n.cpus(dev, NVML_WORDS, words);
    memcpy(out, words, sizeof *out);
    if (rc != 0)
        snprintf(why, WHY, "%.170s", n.error_string(rc));
    else
        snprintf(why, WHY, "an empty set");
    if (ready)
        n.shutdown();
    dlclose(lib);
    return rc == 0 && CPU_COUNT(out) > 0;
}

hr_status hr__affinity_near(const hr__affinity_from *from, const char *bus_id,
                            cpu_set_t *out)
{
    char sysfs[WHY], tree[WHY], gpu[WHY];
    pci_address a;
    HR_TRY(read_address(bus_id, &a));
    if (by_sysfs(from->sysfs, &a, out, sysfs) || by_hwloc(&a, out, tree) ||
        by_nvml(from->nvml, bus_id, out, gpu))
        return HR_OK;
    return hr_fail(HR_ERR_UNSUPPORTED, "affinity_unknown",
                   "nobody knows the CPUs near the device at %s: sysfs: %s; hwloc: %s; "
                   "NVML: %s",
                   bus_id, sysfs, tree, gpu);
}
