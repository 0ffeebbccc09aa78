/* A transfer ends `latency + bytes / bandwidth` after the arrival of the last member. The bytes
 * were copied before; what is left of that time is slept. A group of one has no link. */
#include "group/local/local_link.h"
#include "group/group_spans.h"

hr_status hr__transfer_end(hr__member *m, const hr__transfer *t)
{
    hr__job *job = m->ch->job;
    hr_status st = HR_OK;
    if (m->ch->n > 1 && job->link_note[0]) {
        double ns = job->link_latency_ns + (double)t->bytes * job->link_ns_per_byte;
        st = hr__sleep_until(t->last_ns + (int64_t)ns, hr__job_look, job);
    }
    hr__op_spans(t->op, t->arrived_ns, t->last_ns);
    return st;
}
