/* The critical path is walked backwards from the slot that ends last: a slot started when the one before
 * it on its rank ended, or when an input arrived from another rank. Where both are so the walk
 * stays on the rank. */
#include "schedule/critical.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/links.h"

#include <stdlib.h>

typedef struct walk {
    const hr__replay *r;
    hr_figures *f;
    size_t cap;
    int rank;
    size_t at; /* first action of the slot that was reached */
} walk;

static int64_t start_of(const walk *w)
{
    return w->r->rank[w->rank].time[w->at].start;
}

static int64_t end_of(const walk *w, int rank, size_t at)
{
    return w->r->rank[rank].time[at].end;
}

static const hr_action *action(const walk *w)
{
    return &w->r->s->order[w->rank].a[w->at];
}

static int slot(const walk *w)
{
    return w->r->split_pairs ? 1 : hr__slot(action(w));
}

/* Whether it takes part: what only prepares, or is a transfer that holds nobody, does not. */
static bool counts(const walk *w, const hr_action *a)
{
    return hr__computes(a->kind) || (w->r->rendezvous && hr__has_microbatch(a->kind));
}

static hr_status add_step(walk *w)
{
    hr_figures *f = w->f;
    if (f->path_steps == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;
        hr_path_step *path = realloc(f->path, cap * sizeof *path);
        if (path == NULL)
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a path of %zu steps",
                           cap);
        f->path = path;
        w->cap = cap;
    }
    int64_t lasts = end_of(w, w->rank, w->at) - start_of(w);
    f->path[f->path_steps++] = (hr_path_step){.rank = w->rank,
                                              .position = w->at,
                                              .start = start_of(w),
                                              .end = end_of(w, w->rank, w->at)};
    *(hr__computes(action(w)->kind) ? &f->path_compute : &f->path_transfer) += lasts;
    return HR_OK;
}

/* To the slot before on `rank`, from place `at`; false if none takes part. */
static bool step_back(walk *w, int rank, size_t at)
{
    const hr_action *a = w->r->s->order[rank].a;
    while (at > 0 && !counts(w, &a[at - 1]))
        at--;
    if (at == 0)
        return false;
    at--;
    while (!w->r->split_pairs && a[at].pair > 0 && at > 0 &&
           a[at - 1].pair == a[at].pair + 1)
        at--;
    w->rank = rank;
    w->at = at;
    return true;
}

/* The first place on `rank` that ends at `end`, or later: ends do not fall along an order. */
static size_t first_at(const walk *w, int rank, int64_t end)
{
    size_t low = 0;
    for (size_t high = w->r->s->order[rank].n; low < high;) {
        size_t mid = low + (high - low) / 2;
        if (end_of(w, rank, mid) < end)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Where on `rank` an output was made that was there at `end`. */
static size_t find(const walk *w, int rank, int64_t end, int stage, int microbatch,
                   bool backward)
{
    const hr__order *o = &w->r->s->order[rank];
    size_t at = first_at(w, rank, end);
    for (; at < o->n; at++) {
        const hr_action *a = &o->a[at];
        bool made = backward ? a->kind == HR_ACTION_B || a->kind == HR_ACTION_I
                             : a->kind == HR_ACTION_F;
        if (made && a->stage == stage && a->microbatch == microbatch)
            break;
    }
    return at;
}

/* From the maker at `at` of an output that left at `leaves` back to the first of the transfers that kept
 * its link busy until then. */
static size_t head_of_queue(const walk *w, int rank, size_t at, int64_t leaves)
{
    const hr_action *a = w->r->s->order[rank].a;
    int link = hr__link_of(w->r->links, &a[at]);
    for (size_t k = at; leaves > end_of(w, rank, at) && k > 0; k--)
        if (hr__link_of(w->r->links, &a[k - 1]) == link) {
            at = k - 1;
            leaves -= w->r->s->comm;
        }
    return at;
}

/* To the slot whose output arrived when the current one started. */
static bool cross(walk *w)
{
    const hr_schedule *s = w->r->s;
    hr__input in[2];
    int n = slot(w);
    const hr_action *first = action(w);
    for (int k = 0; k < n; k++) {
        int count = hr__inputs(w->r, w->rank, &first[k], in);
        for (int j = 0; j < count; j++) {
            if (in[j].own || in[j].at != start_of(w))
                continue;
            int m = first[k].microbatch;
            int from = hr__owner(s, in[j].stage, m);
            size_t cell = hr__cell(s, in[j].stage, m);
            int64_t end = hr__at((in[j].backward ? w->r->b_end : w->r->f_end)[cell]);
            size_t at = find(w, from, end, in[j].stage, m, in[j].backward);
            if (w->r->links != NULL)
                at = head_of_queue(w, from, at, in[j].at - w->r->hop);
            return step_back(w, from, at + 1);
        }
    }
    return false;
}

/* A transfer that holds both ranks started when the later of them came to it. */
static bool meet(walk *w)
{
    const hr_schedule *s = w->r->s;
    hr_action other;
    int q = hr__partner(s, action(w), &other);
    size_t at = first_at(w, q, end_of(w, w->rank, w->at));
    for (; at < s->order[q].n; at++) {
        const hr_action *b = &s->order[q].a[at];
        if (b->kind == other.kind && b->stage == other.stage &&
            b->microbatch == other.microbatch)
            break;
    }
    return step_back(w, q, at);
}

static bool go_back(walk *w)
{
    walk here = *w;
    int64_t start = start_of(w);
    if (start == 0)
        return false;
    if (step_back(w, w->rank, w->at) && end_of(w, w->rank, w->at) == start)
        return true;
    *w = here;
    return hr__computes(action(w)->kind) ? cross(w) : meet(w);
}

static void reverse(hr_figures *f)
{
    for (size_t i = 0, k = f->path_steps; i + 1 < k; i++) {
        hr_path_step step = f->path[i];
        f->path[i] = f->path[--k];
        f->path[k] = step;
    }
}

hr_status hr__critical(const hr__replay *r, hr_figures *f)
{
    walk w = {.r = r, .f = f};
    bool found = false;
    for (int k = 0; k < f->ranks && !found && f->makespan > 0; k++)
        found = f->rank[k].last == f->makespan && step_back(&w, k, r->s->order[k].n);
    while (found) {
        int64_t start = start_of(&w);
        HR_TRY(add_step(&w));
        found = go_back(&w);
        int64_t transfer = found ? start - end_of(&w, w.rank, w.at) : 0;
        f->path[f->path_steps - 1].transfer = transfer;
        f->path_transfer += transfer;
    }
    reverse(f);
    return HR_OK;
}
