/* All waiting of the CUDA backend: ask, and rest between. A wait that blocked within the runtime would
 * leave nobody to end a transfer that hangs. */
#include <sched.h>
#include <time.h>

#include "device/cuda/cuda_device.h"

/* Short waits are over within the looks without a rest; of long ones a rest is a small part. */
enum { QUICK_LOOKS = 200, FIRST_REST_NS = 20000, LONGEST_REST_NS = 200000 };

void hr__cuda_watch_add(hr_device *dev, hr__cuda_watch *w)
{
    hr__gpu_device *d = (hr__gpu_device *)dev;
    w->next = d->watches;
    d->watches = w;
}

void hr__cuda_watch_remove(hr_device *dev, hr__cuda_watch *w)
{
    hr__gpu_device *d = (hr__gpu_device *)dev;
    for (hr__cuda_watch **at = &d->watches; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            return;
        }
    }
}

static void ask_watches(hr__gpu_device *d)
{
    for (hr__cuda_watch *w = d->watches, *next; w; w = next) {
        next = w->next; /* it may take itself off */
        w->look(w->ctx);
    }
}

static void rest(hr__gpu_device *d, int looks)
{
    if (looks < QUICK_LOOKS) {
        sched_yield();
        return;
    }
    ask_watches(d);
    long ns = FIRST_REST_NS * (1L + (looks - QUICK_LOOKS) / 16);
    nanosleep(
        &(struct timespec){.tv_nsec = ns < LONGEST_REST_NS ? ns : LONGEST_REST_NS},
        NULL);
}

cudaError_t hr__cuda_await(hr_device *dev, hr_stream *s, hr__cuda_ask ask, void *of,
                           const char *call)
{
    enum { FOR_GOOD = 3 };
    hr__gpu_device *d = (hr__gpu_device *)dev;
    cudaError_t e;
    int looks = 0, errors = 0;
    while ((e = ask(s, of)) != cudaSuccess) {
        if (e != cudaErrorNotReady) {
            hr__cuda_ok(dev, s, e, call);
            if (++errors == FOR_GOOD)
                return e;
        } else {
            errors = 0;
        }
        rest(d, looks++);
    }
    ask_watches(d); /* work that has ended may have ended badly */
    if (looks > 0)  /* some runtimes keep "not ready" as the thread's last error */
        (void)d->rt->cudaGetLastError();
    return cudaSuccess;
}

void hr__cuda_look_for_fault(hr__gpu_device *d)
{
    hr__cuda_fault *f = d->fault;
    if (f == NULL || __atomic_load_n(&f->set, __ATOMIC_ACQUIRE) != 2)
        return;
    hr_fail(HR_ERR_INVALID, "index", "rank %d, %s: %s[%lld] is %lld, not %d..%lld",
            d->base.rank, f->op, f->what, (long long)f->at, (long long)f->value,
            f->least, (long long)f->limit - 1);
    __atomic_store_n(&f->set, 0, __ATOMIC_RELEASE);
    hr_device_fail(&d->base, HR_ERR_INVALID);
}
