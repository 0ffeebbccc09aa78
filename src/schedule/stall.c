/* Says in words why a replay is stuck: the first action whose input no rank makes, else the
 * smallest circle of ranks that wait for each other. */
#include "schedule/action_text.h"
#include "schedule/replay.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    STARTS = 256, /* ranks that a circle is looked for from */
    SHOWN = 6,    /* links of a circle that are told */
};

/* One thing that a stuck rank waits for. */
typedef struct want {
    const hr_action *who; /* waits */
    int rank;             /* that has to do it; -1 none can */
    size_t at;            /* where it stands in that rank's order; SIZE_MAX nowhere */
    hr_action a;          /* the action; for the B or I of a stage what stands there */
} want;

static bool fulfils(const hr_action *a, const hr_action *wanted)
{
    bool backward = wanted->kind == HR_ACTION_B;
    return a->stage == wanted->stage && a->microbatch == wanted->microbatch &&
           (a->kind == wanted->kind || (backward && a->kind == HR_ACTION_I));
}

/* Looks for it in what the rank still has to do. */
static want look_up(const hr__replay *r, int rank, hr_action wanted)
{
    want w = {NULL, rank, SIZE_MAX, wanted};
    if (rank < 0)
        return w;
    const hr__order *o = &r->s->order[rank];
    for (size_t i = r->rank[rank].at; i < o->n; i++) {
        if (!fulfils(&o->a[i], &wanted))
            continue;
        w.at = i;
        w.a = o->a[i];
        break;
    }
    return w;
}

/* What the action waits for, into w[2]. */
static int wants_of(const hr__replay *r, int rank, const hr_action *a, want *w)
{
    hr__input in[2];
    int n = 0;
    if (!hr__computes(a->kind)) {
        hr_action other = *a;
        int q = hr__partner(r->s, a, &other);
        w[0] = look_up(r, q, other);
        return 1;
    }
    int count = hr__inputs(r, rank, a, in);
    for (int k = 0; k < count; k++) {
        if (in[k].at >= 0)
            continue;
        hr_action wanted = {.microbatch = a->microbatch,
                            .stage = (uint16_t)in[k].stage};
        wanted.kind = in[k].backward ? HR_ACTION_B : HR_ACTION_F;
        int q = hr__owner(r->s, in[k].stage, a->microbatch);
        if (r->rendezvous && !in[k].own) { /* its own receive has to come first */
            wanted.kind = in[k].backward ? HR_ACTION_RECV_B : HR_ACTION_RECV_F;
            wanted.stage = a->stage;
            q = rank;
        }
        w[n++] = look_up(r, q, wanted);
    }
    return n;
}

static int slot_of(const hr__replay *r, int rank, const hr_action **a)
{
    const hr__order *o = &r->s->order[rank];
    size_t at = r->rank[rank].at;
    if (at == o->n)
        return 0;
    *a = &o->a[at];
    return r->split_pairs ? 1 : hr__slot(*a);
}

/* The wants of all actions of a rank's slot; returns how many, at most `most`. */
static int wants_of_rank(const hr__replay *r, int rank, want *w, int most)
{
    const hr_action *a = NULL;
    int slot = slot_of(r, rank, &a);
    int n = 0;
    for (int k = 0; k < slot && n + 2 <= most; k++) {
        int more = wants_of(r, rank, &a[k], &w[n]);
        for (int j = 0; j < more; j++)
            w[n + j].who = &a[k];
        n += more;
    }
    return n;
}

enum { WANTS = 16 };

static hr_status fail_absent(const hr__replay *r)
{
    want w[WANTS] = {{.rank = -1}};
    char a[HR__ACTION_TEXT];
    char b[HR__ACTION_TEXT];
    for (int rank = 0; rank < r->s->ranks; rank++) {
        int n = wants_of_rank(r, rank, w, WANTS);
        for (int k = 0; k < n; k++)
            if (w[k].at == SIZE_MAX)
                return hr_fail(HR_ERR_INVALID, "deadlock",
                               "rank %d, position %zu: %s waits for %s, which stands "
                               "nowhere from there on",
                               rank, r->rank[rank].at, hr__action_print(w[k].who, a),
                               hr__action_print(&w[k].a, b));
    }
    return HR_OK;
}

/* The shortest way from `start` back to itself over waiting ranks; `via` [ranks] gets the rank
 * before each on the way. Returns its length, 0 if there is none shorter than `best`. */
static int circle_from(const hr__replay *r, int start, int best, int *via, int *depth,
                       int *queue)
{
    want w[WANTS] = {{.rank = -1}};
    int head = 0;
    int tail = 0;
    for (int k = 0; k < r->s->ranks; k++)
        depth[k] = -1;
    depth[start] = 0;
    queue[tail++] = start;
    while (head < tail) {
        int rank = queue[head++];
        int n = wants_of_rank(r, rank, w, WANTS);
        for (int k = 0; k < n && depth[rank] + 1 < best; k++) {
            int q = w[k].rank;
            if (q == start) {
                via[start] = rank;
                return depth[rank] + 1;
            }
            if (depth[q] >= 0)
                continue;
            depth[q] = depth[rank] + 1;
            via[q] = rank;
            queue[tail++] = q;
        }
    }
    return 0;
}

static void tell_link(FILE *f, const hr__replay *r, int rank, int next)
{
    want w[WANTS] = {{.rank = -1}};
    char a[HR__ACTION_TEXT];
    char b[HR__ACTION_TEXT];
    int n = wants_of_rank(r, rank, w, WANTS);
    for (int k = 0; k < n; k++) {
        if (w[k].rank != next)
            continue;
        fprintf(f, "rank %d, position %zu: %s waits for %s at position %zu of rank %d",
                rank, r->rank[rank].at, hr__action_print(w[k].who, a),
                hr__action_print(&w[k].a, b), w[k].at, next);
        return;
    }
}

/* `via` leads from each rank of the circle to the one before it. */
static hr_status tell_circle(const hr__replay *r, int start, int length, const int *via,
                             int *way)
{
    char text[1200] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    if (f == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a sentence");
    int rank = start;
    for (int k = length - 1; k >= 0; k--)
        way[k] = rank = via[rank];
    for (int k = 0; k < length && k < SHOWN; k++) {
        fputs(k ? "; " : "", f);
        tell_link(f, r, way[k], way[(k + 1) % length]);
    }
    if (length > SHOWN)
        fprintf(f, "; and so on over %d ranks", length);
    fclose(f);
    return hr_fail(HR_ERR_INVALID, "deadlock", "deadlock: %s", text);
}

hr_status hr__stall_fail(const hr__replay *r)
{
    hr_status st = fail_absent(r);
    if (st < 0)
        return st;
    size_t ranks = (size_t)r->s->ranks;
    int *room = malloc(4 * ranks * sizeof *room);
    if (room == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to explain a deadlock");
    int *via = room;
    int *best_via = room + ranks;
    int best = INT32_MAX;
    int start = -1;
    int tried = 0;
    for (int k = 0; k < r->s->ranks && tried < STARTS && best > 1; k++) {
        if (r->rank[k].at == r->s->order[k].n)
            continue;
        tried++;
        int length = circle_from(r, k, best, via, room + 2 * ranks, room + 3 * ranks);
        if (length == 0)
            continue;
        best = length;
        start = k;
        memcpy(best_via, via, ranks * sizeof *via);
    }
    if (start < 0)
        st = hr_fail(HR_ERR_INVALID, "deadlock", "deadlock: no rank can go on");
    else
        st = tell_circle(r, start, best, best_via, room + 2 * ranks);
    free(room);
    return st;
}
