/* Breadth first from each node in turn, no further than the best circle so far. A node that was
 * started from is taken out, and with it all that lead nowhere any more: so a graph that is one
 * large circle is done after one start. */
#include "schedule/circle.h"

#include "base/try.h" /* HR_TRY */

#include <stdlib.h>
#include <string.h>

typedef struct search {
    const hr__graph *g;
    hr__circle *best;
    int64_t left;  /* steps */
    int *first_in; /* [nodes + 1] the edges turned round */
    int *from;     /* [edges] */
    int *out;      /* [nodes] edges to nodes that are not taken out; -1: is itself */
    int *via;      /* [nodes] the node before it on the way from the start */
    int *depth;    /* [nodes] of those in the queue; else -1 */
    int *queue;    /* [nodes] */
} search;

static bool is_out(const search *s, int node)
{
    return s->out[node] < 0;
}

/* Takes out `node`, and all that then lead nowhere. */
static void take_out(search *s, int node)
{
    int waiting = 0;
    if (is_out(s, node))
        return;
    s->out[node] = -1;
    s->queue[waiting++] = node;
    while (waiting > 0) {
        int k = s->queue[--waiting];
        for (int e = s->first_in[k]; e < s->first_in[k + 1]; e++) {
            int before = s->from[e];
            if (is_out(s, before) || --s->out[before] > 0)
                continue;
            s->out[before] = -1;
            s->queue[waiting++] = before;
        }
    }
}

static void turn_round(search *s)
{
    const hr__graph *g = s->g;
    for (int e = 0; e < g->first[g->nodes]; e++)
        s->first_in[g->to[e] + 1]++;
    for (int k = 0; k < g->nodes; k++)
        s->first_in[k + 1] += s->first_in[k];
    for (int k = 0; k < g->nodes; k++)
        for (int e = g->first[k]; e < g->first[k + 1]; e++)
            s->from[s->first_in[g->to[e]] + s->depth[g->to[e]]++] = k;
}

/* Every node that is left leads to one that is left: along the first such edges into a circle. */
static void walk(search *s)
{
    const hr__graph *g = s->g;
    int node = 0;
    while (node < g->nodes && is_out(s, node))
        node++;
    if (node == g->nodes)
        return;
    int steps = 0;
    while (s->depth[node] < 0) {
        s->depth[node] = steps++;
        s->queue[s->depth[node]] = node;
        int e = g->first[node];
        while (is_out(s, g->to[e]))
            e++;
        node = g->to[e];
    }
    int start = s->depth[node];
    s->best->length = steps - start;
    memcpy(s->best->way, s->queue + start, (size_t)(steps - start) * sizeof(int));
    for (int k = 0; k < steps; k++)
        s->depth[s->queue[k]] = -1;
}

static void keep(search *s, int last, int length)
{
    s->best->length = length;
    for (int k = length - 1; k >= 0; k--) {
        s->best->way[k] = last;
        last = s->via[last];
    }
}

/* Keeps the smallest circle through `start` if it is smaller than the best. */
static void look_from(search *s, int start)
{
    const hr__graph *g = s->g;
    int head = 0;
    int tail = 0;
    bool found = false;
    s->depth[start] = 0;
    s->queue[tail++] = start;
    while (head < tail && !found && s->depth[s->queue[head]] + 1 < s->best->length) {
        int node = s->queue[head++];
        s->left -= g->first[node + 1] - g->first[node];
        for (int e = g->first[node]; e < g->first[node + 1] && !found; e++) {
            int next = g->to[e];
            found = next == start;
            if (found)
                keep(s, node, s->depth[node] + 1);
            if (is_out(s, next) || s->depth[next] >= 0)
                continue;
            s->depth[next] = s->depth[node] + 1;
            s->via[next] = node;
            s->queue[tail++] = next;
        }
    }
    for (int k = 0; k < tail; k++)
        s->depth[s->queue[k]] = -1;
}

static void turn_to_lowest(hr__circle *c, int *room)
{
    int low = 0;
    for (int k = 1; k < c->length; k++)
        if (c->way[k] < c->way[low])
            low = k;
    for (int k = 0; k < c->length; k++)
        room[k] = c->way[(k + low) % c->length];
    memcpy(c->way, room, (size_t)c->length * sizeof *room);
}

static void find(search *s)
{
    const hr__graph *g = s->g;
    turn_round(s);
    for (int k = 0; k < g->nodes; k++) {
        s->out[k] = g->first[k + 1] - g->first[k];
        s->depth[k] = -1;
    }
    for (int k = 0; k < g->nodes; k++)
        if (s->out[k] == 0)
            take_out(s, k);
    walk(s);
    for (int k = 0; k < g->nodes && s->best->length > 1; k++) {
        if (is_out(s, k))
            continue;
        if (s->left <= 0) {
            s->best->smallest = false;
            break;
        }
        look_from(s, k);
        take_out(s, k);
    }
    turn_to_lowest(s->best, s->queue);
}

hr_status hr__circle_find(const hr__graph *g, int64_t most, hr__circle *out)
{
    size_t n = (size_t)g->nodes;
    size_t edges = (size_t)g->first[n];
    int *room = calloc(5 * n + 1 + edges, sizeof *room);
    out->length = 0;
    out->smallest = true;
    if (room == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to explain a deadlock");
    search s = {.g = g,
                .best = out,
                .left = most,
                .out = room,
                .via = room + n,
                .depth = room + 2 * n,
                .queue = room + 3 * n,
                .first_in = room + 4 * n,
                .from = room + 5 * n + 1};
    find(&s);
    free(room);
    return HR_OK;
}
