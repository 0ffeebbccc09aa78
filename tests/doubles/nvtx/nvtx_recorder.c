/* A test double of a profiler: NVTX loads it by NVTX_INJECTION64_PATH, and it records the ranges of all
 * domains. At exit it writes to the file that HEADRACE_NVTX_RECORD names, a line a name:
 *
 *     headrace: 12 pushes, 12 pops, at most 3 deep, 0 open
 *     4 mlp forward
 */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 512, LENGTH = 64 };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct name {
    char text[LENGTH];
    long n;
} names[NAMES];                    /* mu */
static int n_names;                /* mu */
static long pushes, pops, deepest; /* mu */
static long too_many;              /* mu; pops of what nobody pushed */
static char domain_name[LENGTH];   /* mu */
static _Thread_local long depth;

static nvtxDomainHandle_t NVTX_API create(const char *name)
{
    pthread_mutex_lock(&mu);
    snprintf(domain_name, sizeof domain_name, "%s", name);
    pthread_mutex_unlock(&mu);
    return (nvtxDomainHandle_t)(void *)domain_name;
}

static void count(const char *text)
{
    int i = 0;
    while (i < n_names && strcmp(names[i].text, text) != 0)
        i++;
    if (i == NAMES)
        return;
    if (i == n_names)
        snprintf(names[n_names++].text, LENGTH, "%s", text);
    names[i].n++;
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *what)
{
    char text[LENGTH];
    snprintf(text, sizeof text, "%s",
             what->messageType == NVTX_MESSAGE_TYPE_ASCII ? what->message.ascii : "?");
    pthread_mutex_lock(&mu);
    pushes++;
    count(text);
    if (++depth > deepest)
        deepest = depth;
    pthread_mutex_unlock(&mu);
    return (int)depth - 1;
}

static int NVTX_API pop(nvtxDomainHandle_t domain)
{
    pthread_mutex_lock(&mu);
    pops++;
    if (depth > 0)
        depth--;
    else
        too_many++;
    pthread_mutex_unlock(&mu);
    return (int)depth;
}

static void write_record(void)
{
    const char *path = getenv("HEADRACE_NVTX_RECORD");
    FILE *to = path ? fopen(path, "w") : NULL;
    if (to == NULL)
        return;
    pthread_mutex_lock(&mu);
    fprintf(to, "%s: %ld pushes, %ld pops, at most %ld deep, %ld open\n", domain_name,
            pushes, pops, deepest, pushes - pops + too_many);
    for (int i = 0; i < n_names; i++)
        fprintf(to, "%ld %s\n", names[i].n, names[i].text);
    pthread_mutex_unlock(&mu);
    fclose(to);
}

/* A function of ours, as the table of NVTX holds it. */
static void put(NvtxFunctionTable table, unsigned size, unsigned at,
                void (*function)(void))
{
    if (at < size)
        *table[at] = (NvtxFunctionPointer)function;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    unsigned size = 0;
    NvtxFunctionTable table = NULL;
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    if (callbacks == NULL ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    put(table, size, NVTX_CBID_CORE2_DomainCreateA, (void (*)(void))create);
    put(table, size, NVTX_CBID_CORE2_DomainRangePushEx, (void (*)(void))push);
    put(table, size, NVTX_CBID_CORE2_DomainRangePop, (void (*)(void))pop);
    return atexit(write_record) == 0;
}
