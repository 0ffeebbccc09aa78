/* See local_doing.h. */
#include "group/local/local_doing.h"
#include "group/local/local_channel.h"

/* How many of the rank's operations were added: one a channel may run, and one meet on the host. */
static int add_channel(char *buf, size_t cap, const hr__channel *ch, int rank)
{
    int found = 0;
    for (int i = 0; i < ch->n; i++) {
        const hr__member *m = &ch->members[i];
        const hr__doing *both[] = {&m->doing, &m->doing_host};
        for (int k = 0; ch->global[i] == rank && k < 2; k++)
            if (atomic_load_explicit(&both[k]->inside, memory_order_acquire)) {
                hr__doing_write(buf, cap, ch->global, ch->n, both[k], rank);
                found++;
            }
    }
    return found;
}

int hr__doing_under_way(char *buf, size_t cap, hr__channel *ch, int member)
{
    int found = 0;
    pthread_mutex_lock(&ch->job->mu);
    for (const hr__channel *c = ch->job->channels; c; c = c->next)
        found += add_channel(buf, cap, c, ch->global[member]);
    pthread_mutex_unlock(&ch->job->mu);
    return found;
}

void hr__doing_list(char *buf, size_t cap, hr__channel *ch, int member)
{
    if (hr__doing_under_way(buf, cap, ch, member) == 0)
        hr__doing_write_last(buf, cap, &ch->members[member].doing, ch->global[member]);
}
