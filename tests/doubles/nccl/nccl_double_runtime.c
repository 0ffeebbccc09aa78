/* What is taken from the double of the CUDA runtime; what fails on request; what lives. */
#include "nccl_double_impl.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char headrace_nccl_double[] = "NCCL on test double";

static const struct {
    const char *name;
    size_t at;
} functions[] = {
    {"headrace_double_gpu_job", offsetof(runtime, gpu_job)},
    {"headrace_double_gpu_works", offsetof(runtime, gpu_works)},
    {"headrace_double_enter", offsetof(runtime, enter)},
    {"headrace_double_device", offsetof(runtime, device)},
    {"headrace_double_deaths", offsetof(runtime, deaths)},
    {"headrace_double_alloc", offsetof(runtime, alloc)},
    {"headrace_double_free", offsetof(runtime, free)},
    {"headrace_double_reaches", offsetof(runtime, reaches)},
};

static runtime taken;
static bool complete;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* It is loaded already, and stays. */
static void take(void)
{
    const char *path = getenv("HEADRACE_CUDART");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (library == NULL)
        return;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *f = dlsym(library, functions[i].name);
        if (f == NULL)
            return;
        memcpy((char *)&taken + functions[i].at, &f, sizeof f);
    }
    complete = true;
}

const runtime *double_runtime(void)
{
    pthread_once(&once, take);
    return complete ? &taken : NULL;
}

/* ---- errors ---- */
static _Thread_local char said[512];

ncclResult_t double_wrong(ncclResult_t e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    return e;
}

ncclResult_t double_enter(void)
{
    const runtime *rt = double_runtime();
    if (rt == NULL)
        return double_wrong(
            ncclSystemError,
            "the test double wants that of the CUDA runtime (HEADRACE_CUDART)");
    int e = rt->enter();
    return e == 0 ? ncclSuccess
                  : double_wrong(ncclUnhandledCudaError, "CUDA failure %d", e);
}

/* A communicator's own sentence, if it has one; else that of this thread's last call. */
const char *ncclGetLastError(ncclComm_t comm)
{
    if (comm) {
        pthread_mutex_lock(&comm->clique->mu);
        if (comm->clique->error != ncclSuccess)
            memcpy(said, comm->clique->said, sizeof said);
        pthread_mutex_unlock(&comm->clique->mu);
    }
    return said;
}

const char *ncclGetErrorString(ncclResult_t e)
{
    static const char *const words[] = {
        "no error",
        "unhandled cuda error",
        "unhandled system error",
        "internal error",
        "invalid argument",
        "invalid usage",
        "remote process exited or there was a network error",
        "NCCL operation in progress"};
    return (int)e >= 0 && e <= ncclInProgress ? words[e] : "unknown result code";
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

/* ---- what lives ---- */
static atomic_long comms, windows, blocks;

void double_count(int more_comms, int more_windows, int more_blocks)
{
    atomic_fetch_add(&comms, more_comms);
    atomic_fetch_add(&windows, more_windows);
    atomic_fetch_add(&blocks, more_blocks);
}

void headrace_nccl_count(nccl_live *out)
{
    *out =
        (nccl_live){atomic_load(&comms), atomic_load(&windows), atomic_load(&blocks)};
}

static void report(void)
{
    nccl_live l;
    headrace_nccl_count(&l);
    fprintf(stderr, "%s: live: %ld communicators, %ld windows, %ld blocks\n",
            headrace_nccl_double, l.comms, l.windows, l.blocks);
}

__attribute__((constructor)) static void read_environment(void)
{
    if (getenv("HEADRACE_DOUBLE_REPORT") && atexit(report) != 0)
        abort();
}
