/* Test double of NVIDIA's management library: one device, near CPU 0. FAKE_NVML says what goes wrong:
 * "init", "handle", "empty". */
#include <stdlib.h>
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int rc);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **dev);
int nvmlDeviceGetCpuAffinity(void *dev, unsigned words, unsigned long *set);

static int device;

static int fails(const char *what)
{
    const char *v = getenv("FAKE_NVML");
    return v && strcmp(v, what) == 0;
}

int nvmlInit_v2(void)
{
    return fails("init") ? 9 : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int rc)
{
    return rc == 9 ? "Driver Not Loaded" : rc == 6 ? "Not Found" : "?";
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **dev)
{
    *dev = &device;
    return fails("handle") || bus_id[0] == '\0' ? 6 : 0;
}

int nvmlDeviceGetCpuAffinity(void *dev, unsigned words, unsigned long *set)
{
    for (unsigned i = 0; i < words; i++)
        set[i] = 0;
    set[0] = fails("empty") || dev != &device ? 0 : 1;
    return 0;
}
