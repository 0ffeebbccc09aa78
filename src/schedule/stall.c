/* Says in words why a replay is stuck: the first action whose input no rank makes, else the
 * smallest circle of ranks that wait for each other. */
#include "base/try.h" /* HR_TRY */
#include "schedule/action_text.h"
#include "schedule/circle.h"
#include "schedule/replay.h"

#include <stdlib.h>

enum {
    SHOWN = 6,               /* links of a circle that are told */
    WANTS = 2 * HR__MAX_PAIR /* of a slot: two an action */
};
#define MOST_STEPS ((int64_t)200000000) /* about half a second */

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

/* False for a send of a value that its rank has yet to make. */
static bool is_made(const hr__replay *r, const hr_action *a)
{
    size_t cell = hr__cell(r->s, a->stage, a->microbatch);
    return a->kind == HR_ACTION_SEND_F   ? r->f_end[cell] != 0
           : a->kind == HR_ACTION_SEND_B ? r->b_end[cell] != 0
                                         : true;
}

/* What the action waits for, into w[2]. */
static int wants_of(const hr__replay *r, int rank, const hr_action *a, want *w)
{
    hr__input in[2];
    int n = 0;
    if (!hr__computes(a->kind)) {
        hr_action other = *a;
        int q = rank;
        if (is_made(r, a))
            q = hr__partner(r->s, a, &other);
        else
            other.kind = a->kind == HR_ACTION_SEND_F ? HR_ACTION_F : HR_ACTION_B;
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

/* The wants of all actions of a rank's slot, into w[WANTS]; returns how many. */
static int wants_of_rank(const hr__replay *r, int rank, want *w)
{
    const hr_action *a = NULL;
    int slot = slot_of(r, rank, &a);
    int n = 0;
    for (int k = 0; k < slot; k++) {
        int more = wants_of(r, rank, &a[k], &w[n]);
        for (int j = 0; j < more; j++)
            w[n + j].who = &a[k];
        n += more;
    }
    return n;
}

static hr_status fail_absent(const hr__replay *r)
{
    want w[WANTS] = {{.rank = -1}};
    char a[HR__ACTION_TEXT];
    char b[HR__ACTION_TEXT];
    for (int rank = 0; rank < r->s->ranks; rank++) {
        int n = wants_of_rank(r, rank, w);
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

static void tell_link(FILE *f, const hr__replay *r, int rank, int next)
{
    want w[WANTS] = {{.rank = -1}};
    char a[HR__ACTION_TEXT];
    char b[HR__ACTION_TEXT];
    int n = wants_of_rank(r, rank, w);
    for (int k = 0; k < n; k++) {
        if (w[k].rank != next)
            continue;
        fprintf(f, "rank %d, position %zu: %s waits for %s at position %zu of rank %d",
                rank, r->rank[rank].at, hr__action_print(w[k].who, a),
                hr__action_print(&w[k].a, b), w[k].at, next);
        return;
    }
}

static hr_status tell_circle(const hr__replay *r, const hr__circle *c)
{
    char text[1200] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    if (f == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a sentence");
    for (int k = 0; k < c->length && k < SHOWN; k++) {
        fputs(k ? "; " : "", f);
        tell_link(f, r, c->way[k], c->way[(k + 1) % c->length]);
    }
    if (c->length > SHOWN)
        fprintf(f, "; and so on over %d ranks", c->length);
    fclose(f);
    return hr_fail(HR_ERR_INVALID, "deadlock", "deadlock%s: %s",
                   c->smallest ? "" : " (a circle, perhaps not the smallest)", text);
}

/* Which stuck rank waits for which, into first[ranks + 1] and *to, which is the caller's. */
static hr_status fill_graph(const hr__replay *r, int *first, int **to)
{
    want w[WANTS] = {{.rank = -1}};
    int n = 0;
    int room = 0;
    for (int rank = 0; rank < r->s->ranks; rank++) {
        int more = wants_of_rank(r, rank, w);
        first[rank] = n;
        if (n + more > room) {
            room = 2 * room + WANTS;
            int *larger = realloc(*to, (size_t)room * sizeof *larger);
            if (larger == NULL)
                return hr_fail(HR_ERR_NOMEM, NULL, "no memory to explain a deadlock");
            *to = larger;
        }
        for (int k = 0; k < more; k++)
            (*to)[n++] = w[k].rank;
    }
    first[r->s->ranks] = n;
    return HR_OK;
}

static hr_status fail_circle(const hr__replay *r, int *first, int **to, hr__circle *c)
{
    HR_TRY(fill_graph(r, first, to));
    hr__graph g = {.nodes = r->s->ranks, .first = first, .to = *to};
    HR_TRY(hr__circle_find(&g, MOST_STEPS, c));
    if (c->length == 0)
        return hr_fail(HR_ERR_INVALID, "deadlock", "deadlock: no rank can go on");
    return tell_circle(r, c);
}

hr_status hr__stall_fail(const hr__replay *r)
{
    HR_TRY(fail_absent(r));
    size_t ranks = (size_t)r->s->ranks;
    int *room = malloc((2 * ranks + 1) * sizeof *room);
    int *to = NULL;
    if (room == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to explain a deadlock");
    hr__circle c = {.way = room + ranks + 1};
    hr_status st = fail_circle(r, room, &to, &c);
    free(to);
    free(room);
    return st;
}
