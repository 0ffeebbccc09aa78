/* Ranges and the probe: both belong to the calling thread, so neither needs a lock. */
#include "trace/nvtx.h"
#include "trace/probe.h" /* HR_PROBE */

atomic_int hr__probes;
_Thread_local hr_probe_fn hr__probe_fn;
_Thread_local void *hr__probe_ctx;

static _Thread_local int depth;
static _Thread_local bool off; /* so that zero, what a new thread starts with, is on */

void hr_range_push(const char *name)
{
    if (off)
        return;
    depth++;
    hr__nvtx_push(name);
    HR_PROBE(.kind = HR_PROBE_PUSH, .text = name);
}

void hr_range_pop(void)
{
    if (off || depth == 0)
        return;
    depth--;
    hr__nvtx_pop();
    HR_PROBE(.kind = HR_PROBE_POP);
}

int hr_range_depth(void)
{
    return depth;
}

void hr_range_enable(bool on)
{
    off = !on;
}

void hr_probe_set(hr_probe_fn fn, void *ctx)
{
    atomic_fetch_add(&hr__probes, (fn != NULL) - (hr__probe_fn != NULL));
    hr__probe_fn = fn;
    hr__probe_ctx = ctx;
}
