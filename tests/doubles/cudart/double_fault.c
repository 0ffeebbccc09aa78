/* Failures on request, errors of threads, and what still lives. */
#include "double_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char headrace_cudart_double[] = "CUDA on test double";

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static long calls, fail_at;         /* mu */
static cudaError_t fail_with, dead; /* mu */
static int deaths;                  /* mu */
static bool failed;                 /* mu */
static handle *handles[KINDS];      /* mu */
static long count[KINDS];           /* mu */

static _Thread_local cudaError_t last_error;
static _Thread_local bool in_host_function;

static bool kills(cudaError_t e)
{
    return e == cudaErrorIllegalAddress || e == cudaErrorLaunchFailure ||
           e == cudaErrorLaunchTimeout || e == cudaErrorAssert ||
           (e >= cudaErrorHardwareStackError && e <= cudaErrorInvalidPc);
}

cudaError_t double_end(cudaError_t e)
{
    if (e != cudaSuccess)
        last_error = e;
    return e;
}

cudaError_t double_enter(void)
{
    if (in_host_function)
        return double_end(cudaErrorNotPermitted);
    pthread_mutex_lock(&mu);
    cudaError_t e = dead;
    if (++calls == fail_at) {
        e = fail_with;
        failed = true;
        if (kills(e)) {
            dead = e;
            deaths++;
        }
    }
    pthread_mutex_unlock(&mu);
    return double_end(e);
}

bool double_still(bool waiting)
{
    pthread_mutex_lock(&mu);
    bool counts = dead != cudaSuccess || calls + 1 == fail_at;
    pthread_mutex_unlock(&mu);
    if (!waiting || in_host_function || counts)
        return false;
    (void)double_end(cudaErrorNotReady);
    return true;
}

void double_die(const char *kernel, const char *wrong)
{
    fprintf(stderr, "%s: kernel '%s': %s\n", headrace_cudart_double, kernel, wrong);
    pthread_mutex_lock(&mu);
    dead = cudaErrorLaunchFailure;
    deaths++;
    pthread_mutex_unlock(&mu);
}

int double_deaths(void)
{
    pthread_mutex_lock(&mu);
    int n = deaths;
    pthread_mutex_unlock(&mu);
    return n;
}

void double_in_host_function(bool yes)
{
    in_host_function = yes;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last_error;
    pthread_mutex_lock(&mu);
    last_error = dead;
    pthread_mutex_unlock(&mu);
    return e;
}

/* ---- handles --------------------------------------------------------------------------------------- */
void double_register(handle *h, handle_kind kind)
{
    pthread_mutex_lock(&mu);
    h->kind = kind;
    h->prev = NULL;
    h->next = handles[kind];
    if (h->next)
        h->next->prev = h;
    handles[kind] = h;
    count[kind]++;
    pthread_mutex_unlock(&mu);
}

void double_forget(handle *h)
{
    pthread_mutex_lock(&mu);
    if (h->prev)
        h->prev->next = h->next;
    else
        handles[h->kind] = h->next;
    if (h->next)
        h->next->prev = h->prev;
    count[h->kind]--;
    pthread_mutex_unlock(&mu);
}

bool double_knows(const void *h, handle_kind kind)
{
    bool found = false;
    pthread_mutex_lock(&mu);
    for (handle *at = handles[kind]; at && !found; at = at->next)
        found = at == h;
    pthread_mutex_unlock(&mu);
    return found;
}

/* ---- for other doubles ------------------------------------------------------------------------------ */
int headrace_double_enter(void)
{
    return double_enter();
}

int headrace_double_device(void)
{
    return double_device();
}

int headrace_double_deaths(void)
{
    return double_deaths();
}

/* ---- for tests ------------------------------------------------------------------------------------- */
long headrace_double_calls(void)
{
    pthread_mutex_lock(&mu);
    long n = calls;
    pthread_mutex_unlock(&mu);
    return n;
}

void headrace_double_fail(long n, int code)
{
    pthread_mutex_lock(&mu);
    fail_at = n > 0 ? calls + n : 0;
    fail_with = (cudaError_t)code;
    failed = false;
    pthread_mutex_unlock(&mu);
}

bool headrace_double_failed(void)
{
    pthread_mutex_lock(&mu);
    bool yes = failed;
    pthread_mutex_unlock(&mu);
    return yes;
}

void headrace_double_revive(void)
{
    pthread_mutex_lock(&mu);
    dead = cudaSuccess;
    pthread_mutex_unlock(&mu);
    last_error = cudaSuccess;
}

void headrace_double_count(double_live *out)
{
    double_blocks(&out->blocks, &out->bytes);
    pthread_mutex_lock(&mu);
    out->streams = count[STREAM];
    out->events = count[EVENT];
    out->pools = count[POOL];
    pthread_mutex_unlock(&mu);
}

static void report(void)
{
    double_live l;
    headrace_double_count(&l);
    fprintf(
        stderr,
        "%s: %ld calls; live: %ld streams, %ld events, %ld pools, %ld blocks of %zu "
        "bytes\n",
        headrace_cudart_double, headrace_double_calls(), l.streams, l.events, l.pools,
        l.blocks, l.bytes);
}

__attribute__((constructor)) static void read_environment(void)
{
    char *end;
    const char *fail = getenv("HEADRACE_DOUBLE_FAIL");
    long n = fail ? strtol(fail, &end, 10) : 0;
    if (n > 0 && *end == ':')
        headrace_double_fail(n, (int)strtol(end + 1, NULL, 10));
    if (getenv("HEADRACE_DOUBLE_REPORT") && atexit(report) != 0)
        abort();
}
