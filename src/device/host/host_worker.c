/* The thread of a host stream: take entries off the ring in order, run or wait, count. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/host/host_device.h"

static _Thread_local hr_lane *kernel_lane;

hr_lane *hr_kernel_lane(void)
{
    return kernel_lane;
}

static int16_t narrow(int v)
{
    return v < -1 || v > INT16_MAX ? -1 : (int16_t)v;
}

static void add_span(hr_lane *lane, hr_span_kind kind, const char *name,
                     const hr_mark *m, int64_t begin_ns, int64_t end_ns)
{
    hr_span span = {.begin_ns = begin_ns,
                    .end_ns = end_ns,
                    .name = name,
                    .layer = narrow(m->layer),
                    .microbatch = narrow(m->microbatch),
                    .kind = (uint8_t)kind,
                    .dir = (uint8_t)m->dir};
    hr_lane_add(lane, &span);
}

void hr__host_close_node(hr__host_stream *s)
{
    hr__open_node *o = &s->open;
    if (o->node)
        add_span(s->base.lane, HR_SPAN_NODE, o->mark.name, &o->mark, o->begin_ns,
                 o->end_ns);
    o->node = 0;
}

/* Nothing queued says that a node is over: the first launch of another one does, or the
 * issuing thread when it finds the stream empty (hr__host_stream_drain). */
static void enter_node(hr__host_stream *s, const hr__entry *e, int64_t now)
{
    if (e->node == s->open.node)
        return;
    hr__host_close_node(s);
    s->open = (hr__open_node){e->node, e->mark, now, now};
}

/* The rank's cause: where it happened, and what the kernel said. */
static void fail_launch(hr__host_stream *s, const hr__entry *e, hr_status st)
{
    hr_device *dev = s->base.dev;
    char said[384], node[80] = "", microbatch[32] = "";
    const char *reason = hr_last_reason();
    const char *text = hr_last_error();
    snprintf(said, sizeof said, "%s", text[0] ? text : hr_status_text(st));
    if (e->mark.name)
        snprintf(node, sizeof node, ", node '%.60s'", e->mark.name);
    if (e->mark.microbatch >= 0)
        snprintf(microbatch, sizeof microbatch, ", microbatch %d", e->mark.microbatch);
    hr_fail(st, reason, "rank %d, stream '%s'%s%s, launch '%s': %s", dev->rank,
            s->base.name, node, microbatch, e->name, said);
    hr_device_fail(dev, st);
}

static void run(hr__host_stream *s, const hr__entry *e)
{
    if (hr__failed(&s->base.dev->fail))
        return;
    hr_lane *lane = kernel_lane = s->base.lane;
    int64_t begin = 0;
    if (lane) {
        begin = hr_now_ns();
        enter_node(s, e, begin);
    }
    hr_status st = e->kernel(e->args, s->team);
    if (lane) {
        kernel_lane = NULL;
        int64_t end = s->open.end_ns = hr_now_ns();
        add_span(lane, HR_SPAN_BUSY, e->name, &e->mark, begin, end);
    }
    if (st < 0) {
        fail_launch(s, e, st);
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
