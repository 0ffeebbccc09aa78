/* The thread of a host stream: take entries off the ring in order, run or wait, count. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/host/host_device.h"

static void run(hr__host_stream *s, const hr__entry *e)
{
    if (hr__failed(&s->base.dev->fail))
        return;
    hr_lane *lane = s->base.lane;
    int64_t begin = 0;
    if (lane) {
        hr__kernel_lane_set(lane);
        begin = hr_now_ns();
        hr__node_enter(&s->open, lane, e->node, &e->mark, begin);
    }
    hr_status st = e->kernel(e->args, s->team);
    if (lane) {
        hr__kernel_lane_set(NULL);
        int64_t end = s->open.end_ns = hr_now_ns();
        hr__span_add(lane, HR_SPAN_BUSY, e->name, &e->mark, begin, end);
    }
    if (st < 0) {
        hr__launch_failed(&s->base, e->name, &e->mark, st);
        hr_error_clear(); /* the next failure must not speak with this one's words */
    }
}

static void introduce(const hr__host_stream *s)
{
    char name[64];
    snprintf(name, sizeof name, "hr%d.%s", s->base.dev->rank, s->base.name);
    name[15] = '\0'; /* all that the system takes */
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    /* More urgent is a wish: without the right to it the stream runs like the others. */
    if (s->base.priority < 0)
        (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), s->base.priority);
    hr_set_thread_rank(s->base.dev->rank);
}

bool hr__host_work(hr__host_stream *s, uint64_t at)
{
    const hr__entry *e = &s->ring[at % HR__RING];
    bool stop = !e->kernel && !e->wait.counter;
    if (e->kernel)
        run(s, e);
    else if (!stop)
        hr__counter_wait(e->wait.counter, e->wait.value);
    hr__counter_set(s->done, at + 1);
    return !stop;
}

void *hr__host_worker(void *stream)
{
    hr__host_stream *s = stream;
    uint64_t at = hr__counter_get(s->done);
    introduce(s);
    for (;;) {
        uint64_t queued = hr__counter_wait(s->queued, at + 1);
        while (at < queued)
            if (!hr__host_work(s, at++))
                return NULL;
    }
}
