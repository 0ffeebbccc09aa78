/* A transfer ends `latency + bytes / bandwidth` after the arrival of the last member. The bytes
 * were copied before; what is left of that time is slept. A group of one has no link. */
#include "group/local/local_link.h"

static void add_spans(const hr__transfer *t)
{
    hr_lane *lane = hr_kernel_lane();
    if (!lane)
        return;
    hr_span span = {.name = t->op, .layer = -1, .microbatch = -1, .dir = HR_DIR_NONE};
    if (t->last_ns > t->arrived_ns) {
        span.kind = HR_SPAN_PEERS;
        span.begin_ns = t->arrived_ns;
        span.end_ns = t->last_ns;
        hr_lane_add(lane, &span);
    }
    span.kind = HR_SPAN_TRANSFER;
    span.begin_ns = t->last_ns;
    span.end_ns = hr_now_ns();
    hr_lane_add(lane, &span);
}

hr_status hr__transfer_end(hr__member *m, const hr__transfer *t)
{
    hr__job *job = m->ch->job;
    hr_status st = HR_OK;
    if (m->ch->n > 1 && job->link_note[0]) {
        double ns = job->link_latency_ns + (double)t->bytes * job->link_ns_per_byte;
        st = hr__sleep_until(t->last_ns + (int64_t)ns, hr__job_look, job);
    }
    add_spans(t);
    return st;
}
