/* Lists of CPUs in the kernel's notation: "0-3,8,10-11". */
#include <ctype.h>
#include <string.h>

#include "pipeline/affinity.h"

/* A number below CPU_SETSIZE at *p, which moves behind it; -1 if there is none. */
static int read_cpu(const char **p)
{
    int cpu = 0;
    if (!isdigit((unsigned char)**p))
        return -1;
    for (; isdigit((unsigned char)**p) && cpu < CPU_SETSIZE; (*p)++)
        cpu = cpu * 10 + (**p - '0');
    return cpu < CPU_SETSIZE ? cpu : -1;
}

/* One entry, beyond `last`; the end of its range, or -1. */
static int read_range(const char **p, int last, cpu_set_t *out)
{
    int from = read_cpu(p), to = from;
    if (from >= 0 && **p == '-') {
        (*p)++;
        to = read_cpu(p);
    }
    if (from <= last || to < from)
        return -1;
    for (int cpu = from; cpu <= to; cpu++)
        CPU_SET(cpu, out);
    return to;
}

static bool at_end(const char *p)
{
    return p[p[0] == '\n'] == '\0';
}

hr_status hr__cpu_list_parse(const char *text, cpu_set_t *out)
{
    const char *p = text;
    int last = -1;
    CPU_ZERO(out);
    if (at_end(p))
        return HR_OK;
    for (;;) {
        last = read_range(&p, last, out);
        if (last >= 0 && at_end(p))
            return HR_OK;
        if (last < 0 || *p++ != ',')
            break;
    }
    CPU_ZERO(out);
    return hr_fail(HR_ERR_PARSE, "cpu_list",
                   "not a list of CPUs below %d, in order: '%.64s'", CPU_SETSIZE, text);
}

void hr__cpu_list_print(const cpu_set_t *cpus, char *out, size_t cap)
{
    size_t len = 0;
    snprintf(out, cap, "none");
    for (int cpu = 0; cpu < CPU_SETSIZE && len < cap; cpu++) {
        int from = cpu;
        if (!CPU_ISSET(cpu, cpus))
            continue;
        while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, cpus))
            cpu++;
        const char *comma = len ? "," : "";
        int n = from == cpu
                    ? snprintf(out + len, cap - len, "%s%d", comma, from)
                    : snprintf(out + len, cap - len, "%s%d-%d", comma, from, cpu);
        len += n > 0 ? (size_t)n : 0;
    }
}
