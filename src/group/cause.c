/* The first failure of a job; see cause.h. */
#include "group/cause.h"
#include <string.h>

void hr__cause_write(hr__cause *c, int rank, hr_status st, const char *place)
{
    char prefix[32];
    const char *said = hr_last_error();
    int len = snprintf(prefix, sizeof prefix, "rank %d", rank);
    if (said[0] == '\0')
        said = hr_status_text(st);
    if (strncmp(said, prefix, (size_t)len) == 0 &&
        (strncmp(said + len, ": ", 2) == 0 || strncmp(said + len, ", ", 2) == 0))
        said += len + 2;
    snprintf(c->text, sizeof c->text, "%s: %.640s%s", prefix, said, place);
    c->reason = hr_last_reason();
    atomic_store(&c->failed, (int)st);
}

hr_status hr__cause_status(hr__cause *c, pthread_mutex_t *mu)
{
    if (atomic_load(&c->failed) == 0)
        return HR_OK;
    pthread_mutex_lock(mu);
    hr_status st = (hr_status)atomic_load(&c->failed);
    if (st < 0)
        hr_fail(st, c->reason, "%s", c->text);
    pthread_mutex_unlock(mu);
    return st;
}

void hr__cause_clear(hr__cause *c)
{
    atomic_store(&c->told, false);
    atomic_store(&c->failed, 0);
}
