/* headrace info: what this build and this machine offer, and why something is off. Gathered once as a
 * JSON object, which is then printed as it is or as text. */
#include "commands.h"
#include "headrace/device.h"
#include "headrace/group_mpi.h"
#include "headrace/group_nccl.h"

#include <cairo.h>
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <hwloc.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* `why` it is off; of what is on, more about it where there is more to say. */
static json_t *offer(const char *name, bool on, const char *why)
{
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(name));
    json_object_set_new(o, "on", json_boolean(on));
    if (why && strcmp(why, name) != 0)
        json_object_set_new(o, on ? "about" : "why_off", json_string(why));
    return o;
}

/* The library itself is asked, so that this text cannot be out of date. */
static json_t *backends(void)
{
    static const char *const names[] = {"host", "cuda"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        hr_device *dev = NULL;
        char about[160] = "";
        hr_status st = hr_device_open(names[i], NULL, &dev);
        hr_device_describe(dev, about, sizeof about);
        json_array_append_new(
            list, offer(names[i], st == HR_OK, st == HR_OK ? about : hr_last_error()));
        hr_device_close(dev);
    }
    return list;
}

static json_t *engines(void)
{
    json_t *list = json_array();
    for (int i = 0; hr_local_engine_name(i); i++)
        json_array_append_new(list, offer(hr_local_engine_name(i), true, NULL));
    const char *why, *mpi = hr_mpi_library(&why);
    json_array_append_new(list, offer("mpi", mpi != NULL, mpi ? mpi : why));
    const char *nccl = hr_nccl_library(&why);
    json_array_append_new(list, offer("nccl", nccl != NULL, nccl ? nccl : why));
    return list;
}

/* OpenBLAS tells its build ("OpenBLAS 0.3.21 ... Haswell"); another BLAS has no such function. */
static const char *blas(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "openblas_get_config");
    char *(*config)(void) = NULL;
    memcpy(&config, &symbol,
           sizeof config); /* ISO C has no cast from object to function */
    return config ? config() : "not OpenBLAS";
}

static json_t *libraries(void)
{
    char hwloc[32];
    unsigned v = hwloc_get_api_version();
    snprintf(hwloc, sizeof hwloc, "%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
    json_t *o = json_object();
    json_object_set_new(o, "blas", json_string(blas()));
    json_object_set_new(o, "jansson", json_string(jansson_version_str()));
    json_object_set_new(o, "cairo", json_string(cairo_version_string()));
    json_object_set_new(o, "hwloc", json_string(hwloc));
    if (hr_mpi_library(NULL))
        json_object_set_new(o, "mpi", json_string(hr_mpi_library(NULL)));
    json_object_set_new(o, "glibc", json_string(gnu_get_libc_version()));
    json_object_set_new(o, "compiler", json_string(__VERSION__));
    return o;
}

static const char *info_of(hwloc_obj_t obj, const char *key)
{
    const char *text = obj ? hwloc_obj_get_info_by_name(obj, key) : NULL;
    return text ? text : "unknown";
}

static void add_caches(hwloc_topology_t t, json_t *o)
{
    static const hwloc_obj_type_t types[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                             HWLOC_OBJ_L3CACHE};
    static const char *const names[] = {"l1_bytes", "l2_bytes", "l3_bytes"};
    for (int i = 0; i < 3; i++) {
        hwloc_obj_t cache = hwloc_get_obj_by_type(t, types[i], 0);
        if (cache)
            json_object_set_new(o, names[i],
                                json_integer((json_int_t)cache->attr->cache.size));
    }
}

static json_t *processor(void)
{
    hwloc_topology_t t;
    json_t *o = json_object();
    if (hwloc_topology_init(&t) != 0)
        return o;
    if (hwloc_topology_load(t) == 0) {
        hwloc_obj_t package = hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 0);
        hwloc_bitmap_t may = hwloc_bitmap_alloc();
        json_object_set_new(o, "model", json_string(info_of(package, "CPUModel")));
        json_object_set_new(
            o, "packages",
            json_integer(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE)));
        json_object_set_new(
            o, "numa_nodes",
            json_integer(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE)));
        json_object_set_new(o, "cores",
                            json_integer(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE)));
        json_object_set_new(o, "threads",
                            json_integer(hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU)));
        if (may && hwloc_get_cpubind(t, may, HWLOC_CPUBIND_PROCESS) == 0)
            json_object_set_new(o, "usable_threads",
                                json_integer(hwloc_bitmap_weight(may)));
        add_caches(t, o);
        hwloc_bitmap_free(may);
    }
    hwloc_topology_destroy(t);
    return o;
}

/* ---- as text ------------------------------------------------------------------------------- */
static void put_offers(const char *title, const json_t *list)
{
    size_t i;
    const json_t *o;
    printf("%s\n", title);
    json_array_foreach(list, i, o)
    {
        const char *why = json_string_value(json_object_get(o, "why_off"));
        const char *about = json_string_value(json_object_get(o, "about"));
        printf("  %-18s%s%s%s\n", json_string_value(json_object_get(o, "name")),
               why     ? "off: "
               : about ? "on: "
                       : "on",
               why ? why : "", about ? about : "");
    }
}

static void put_facts(const char *title, json_t *facts)
{
    const char *key;
    json_t *v;
    printf("%s\n", title);
    json_object_foreach(facts, key, v)
    {
        if (json_is_string(v))
            printf("  %-18s%s\n", key, json_string_value(v));
        else
            printf("  %-18s%lld\n", key, (long long)json_integer_value(v));
    }
}

int hr_app_cmd_info(int argc, char *const *argv)
{
    info_options o;
    hr_status st = hr_app_options_info(argc, argv, &o);
    if (st != HR_OK)
        return hr_app_usage("info", st);
    json_t *all = json_object();
    json_object_set_new(all, "version", json_string(hr_version()));
    json_object_set_new(all, "backends", backends());
    json_object_set_new(all, "engines", engines());
    json_object_set_new(all, "libraries", libraries());
    json_object_set_new(all, "processor", processor());
    if (o.json) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        printf("headrace %s\n", hr_version());
        put_offers("backends", json_object_get(all, "backends"));
        put_offers("engines", json_object_get(all, "engines"));
        put_facts("libraries", json_object_get(all, "libraries"));
        put_facts("processor", json_object_get(all, "processor"));
    }
    json_decref(all);
    return hr_app_finish("info", st);
}
