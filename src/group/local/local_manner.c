/* See local_manner.h. */
#include "group/local/local_manner.h"
#include "base/try.h"
#include <stdlib.h>
#include <string.h>

static const int64_t look_again_ns = 50000;

static const hr__manner manners[] = {
    {.name = "local"},
    {.name = "local-rendezvous"},
    {.name = "local-buffered", .buffered = true},
    {.name = "local-delays", .delays = true, .longest_us = 200},
    {.name = "local-late", .late = true, .longest_us = 20000},
};
enum { MANNERS = sizeof manners / sizeof manners[0] };

const char *hr_local_engine_name(int i)
{
    return i >= 0 && i < MANNERS ? manners[i].name : NULL;
}

hr_status hr__manner_find(const char *name, const hr__manner **out)
{
    char all[128] = "";
    if (!name)
        name = getenv("HEADRACE_GROUP_ENGINE");
    if (!name || !name[0])
        name = manners[0].name;
    for (int i = 0; i < MANNERS; i++) {
        size_t len = strlen(all);
        if (strcmp(manners[i].name, name) == 0) {
            *out = &manners[i];
            return HR_OK;
        }
        snprintf(all + len, sizeof all - len, "%s%s", len ? ", " : "", manners[i].name);
    }
    return hr_fail(HR_ERR_INVALID, "group_engine",
                   "hr_local_run: no engine '%.40s'; there are %s", name, all);
}

/* ---- chance ---- */
uint64_t hr__manner_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1); /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

int64_t hr__manner_delay(uint64_t key, int member, uint64_t n, int64_t longest_ns)
{
    uint64_t x = hr__manner_mix(hr__manner_mix(key, (uint64_t)member), n);
    return (int64_t)((double)(x >> 11) * 0x1p-53 * (double)longest_ns);
}

/* ---- waiting ---- */
hr_status hr__manner_pause(hr__member *m)
{
    hr__job *job = m->ch->job;
    int64_t ns = hr__manner_delay(m->ch->key, m->me, m->draws++, job->longest_ns);
    return hr__sleep_until(hr_now_ns() + ns, hr__job_look, job);
}

/* Who waits for this stream, by an event or on the host, must get past it, so it begins. A peer may
 * need it while nobody here waits: then it begins when the time is over, for this rank cannot see
 * the peer's need, and as late as that is allowed too. */
hr_status hr__manner_put_off(hr__member *m, const hr__post *p)
{
    hr__job *job = m->ch->job;
    int64_t end = hr_now_ns() + job->longest_ns;
    while (!hr__order_is_awaited(p->stream)) {
        int64_t now = hr_now_ns();
        if (now >= end)
            break;
        int64_t next = now + look_again_ns;
        HR_TRY(hr__sleep_until(next < end ? next : end, hr__job_look, job));
    }
    return HR_OK;
}
