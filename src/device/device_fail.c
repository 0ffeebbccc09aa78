/* A device fails once: the first cause is kept with its sentence, hooks are told, and every
 * later question gets the cause until the device is reset. Any thread may fail it. */
#include <stdlib.h>
#include <string.h>

#include "device/device_ops.h"

void hr__fail_init(hr__fail *f)
{
    pthread_mutex_init(&f->mu, NULL);
    pthread_mutex_init(&f->hooks_mu, NULL);
}

void hr__fail_fini(hr__fail *f)
{
    pthread_mutex_destroy(&f->mu);
    pthread_mutex_destroy(&f->hooks_mu);
    free(f->hooks);
}

/* Store the cause unless there is one; true if this call was the first. */
static bool store_cause(hr__fail *f, hr_status st)
{
    const char *text = hr_last_error();
    bool first;
    pthread_mutex_lock(&f->mu);
    first = f->cause == HR_OK;
    if (first) {
        f->cause = st;
        f->reason = hr_last_reason();
        snprintf(f->text, sizeof f->text, "%s", text[0] ? text : hr_status_text(st));
        atomic_store_explicit(&f->failed, true, memory_order_release);
    }
    pthread_mutex_unlock(&f->mu);
    return first;
}

void hr_device_fail(hr_device *dev, hr_status st)
{
    if (dev == NULL || st >= 0 || hr__failed(&dev->fail))
        return;
    if (!store_cause(&dev->fail, st))
        return;
    /* The lock stays held while hooks run, so that a hook taken off never runs afterwards.
     * A hook that fails other devices meets no cycle: a failed device returns above. */
    hr__fail *f = &dev->fail;
    pthread_mutex_lock(&f->hooks_mu);
    for (int i = 0; i < f->n_hooks; i++)
        f->hooks[i].fn(f->hooks[i].ctx);
    pthread_mutex_unlock(&f->hooks_mu);
}

hr_status hr_device_status(hr_device *dev)
{
    if (dev == NULL)
        return hr_fail(HR_ERR_INVALID, "no_device", "hr_device_status: no device");
    hr__fail *f = &dev->fail;
    if (!hr__failed(f))
        return HR_OK;
    pthread_mutex_lock(&f->mu);
    hr_status st = f->cause;
    if (st < 0)
        hr_fail(st, f->reason, "%s", f->text);
    pthread_mutex_unlock(&f->mu);
    return st;
}

void hr_device_reset(hr_device *dev)
{
    if (dev == NULL)
        return;
    hr__device_drain(dev);
    hr__fail *f = &dev->fail;
    pthread_mutex_lock(&f->mu);
    f->cause = HR_OK;
    f->reason = NULL;
    f->text[0] = '\0';
    atomic_store_explicit(&f->failed, false, memory_order_release);
    pthread_mutex_unlock(&f->mu);
}

hr_status hr_device_on_fail(hr_device *dev, void (*fn)(void *ctx), void *ctx)
{
    if (dev == NULL || fn == NULL)
        return hr_fail(HR_ERR_INVALID, "no_hook", "hr_device_on_fail: no %s",
                       dev == NULL ? "device" : "function");
    hr__fail *f = &dev->fail;
    hr_status st = HR_OK;
    pthread_mutex_lock(&f->hooks_mu);
    hr__fail_hook *more =
        realloc(f->hooks, (size_t)(f->n_hooks + 1) * sizeof *f->hooks);
    if (more == NULL) {
        st = hr_fail(HR_ERR_NOMEM, NULL, "hr_device_on_fail: no memory for hook %d",
                     f->n_hooks);
    } else {
        f->hooks = more;
        f->hooks[f->n_hooks++] = (hr__fail_hook){fn, ctx};
    }
    pthread_mutex_unlock(&f->hooks_mu);
    return st;
}

void hr_device_off_fail(hr_device *dev, void (*fn)(void *ctx), void *ctx)
{
    if (dev == NULL)
        return;
    hr__fail *f = &dev->fail;
    pthread_mutex_lock(&f->hooks_mu);
    for (int i = 0; i < f->n_hooks; i++) {
        if (f->hooks[i].fn == fn && f->hooks[i].ctx == ctx) {
            size_t rest = (size_t)(f->n_hooks - i - 1);
            memmove(&f->hooks[i], &f->hooks[i + 1], rest * sizeof *f->hooks);
            f->n_hooks--;
            break;
        }
    }
    pthread_mutex_unlock(&f->hooks_mu);
}
