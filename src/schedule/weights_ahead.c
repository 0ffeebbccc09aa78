/* One pass from the back: the list of next stages in front of a slot is the slot's own stages, then
 * the list behind it without them. Its first entries follow from its first entries. */
#include "schedule/weights_ahead.h"

#include <stdlib.h>
#include <string.h>

typedef struct next_use {
    int n;
    uint16_t stage[HR__AHEAD];
    size_t slot[HR__AHEAD]; /* of the use */
} next_use;

static void to_front(next_use *u, uint16_t stage, size_t slot)
{
    int at = 0;
    while (at < u->n && u->stage[at] != stage)
        at++;
    if (at == u->n && u->n < HR__AHEAD)
        u->n++;
    if (at == HR__AHEAD)
        at--;
    memmove(u->stage + 1, u->stage, (size_t)at * sizeof u->stage[0]);
    memmove(u->slot + 1, u->slot, (size_t)at * sizeof u->slot[0]);
    u->stage[0] = stage;
    u->slot[0] = slot;
}

/* A slot counts as a whole: the last one looked at may bring more than are wanted. */
static void keep(const next_use *u, hr__ahead *out)
{
    int n = u->n < HR__ACTIVE ? u->n : HR__ACTIVE;
    while (n < u->n && u->slot[n] == u->slot[n - 1])
        n++;
    out->n = (uint8_t)n;
    memcpy(out->stage, u->stage, (size_t)n * sizeof u->stage[0]);
}

hr__ahead *hr__look_ahead(const hr__order *o)
{
    hr__ahead *ahead = calloc(o->n + 1, sizeof *ahead);
    next_use u = {0};
    if (ahead == NULL)
        return NULL;
    for (size_t i = o->n; i-- > 0;) {
        /* An action inside a pair belongs to the slot that its last action ends. */
        size_t slot = i + (size_t)hr__slot(&o->a[i]);
        to_front(&u, o->a[i].stage, slot);
        keep(&u, &ahead[i]);
    }
    return ahead;
}
