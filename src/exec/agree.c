/* Before ranks do anything together they compare what each is about to do. On a group and a stream
 * of its own, so that nothing of a step is waited for. */
#include "base/try.h"
#include "exec/exec_impl.h"

#include <stdlib.h>
#include <string.h>

hr_status hr__agree_init(hr_exec *e)
{
    size_t n = (size_t)hr_group_size(e->world);
    e->seen = calloc(n, sizeof *e->seen);
    if (!e->seen)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for an executor");
    HR_TRY(hr_stream_create(
        e->dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = "control"},
        &e->control_stream));
    HR_TRY(hr_mem_alloc(e->control_stream, n * sizeof *e->seen, &e->words));
    return hr_group_create(e->world, NULL, 0, &e->control);
}

void hr__agree_fini(hr_exec *e)
{
    hr_group_release(e->control);
    hr_mem_free(e->words, e->control_stream);
    hr_stream_destroy(e->control_stream);
    free(e->seen);
}

hr_status hr__agree_not(hr_group *world, hr_status st)
{
    hr_group_abort(world, st);
    return st;
}

void hr__word_fail(hr__word *w, hr_status st)
{
    w->status = st;
    snprintf(w->reason, sizeof w->reason, "%s", hr_last_reason());
    snprintf(w->text, sizeof w->text, "%s", hr_last_error());
}

static const char *doing(const hr__word *w)
{
    static const char *const name[] = {[HR__OPENS] = "creating an executor",
                                       [HR__LOADS] = "loading a schedule",
                                       [HR__STEPS] = "start of a step"};
    return name[w->deed];
}

static hr_status gather(hr_exec *e, const hr__word *w)
{
    hr_stream *s = e->control_stream;
    int me = hr_group_rank(e->world), n = hr_group_size(e->world);
    hr__word *mine = (hr__word *)e->words + me;
    e->seen[me] = *w;
    hr_group_set_label(e->control, &(hr_op_label){doing(w), -1, -1, -1});
    HR_TRY(hr_copy(s, mine, &e->seen[me], sizeof *mine));
    HR_TRY(hr_all_gather(e->control, mine, e->words, sizeof *w, HR_U8, s));
    HR_TRY(hr_copy(s, e->seen, e->words, (size_t)n * sizeof *w));
    return hr_stream_synchronize(s);
}

/* ---- words --------------------------------------------------------------------------------- */
typedef struct about {
    char text[160];
} about;

/* "evaluates (forward-only, 4 microbatches, 4 stages)" */
static about what_it_does(const hr__word *w)
{
    about a;
    if (w->deed == HR__OPENS) {
        snprintf(a.text, sizeof a.text, "creates an executor (%lld ranks)",
                 (long long)w->ranks);
        return a;
    }
    const char *verb = w->deed == HR__LOADS ? "loads a schedule"
                       : w->forward_only    ? "evaluates"
                                            : "trains";
    snprintf(a.text, sizeof a.text, "%s (%s%lld microbatches, %lld stages, %lld ranks)",
             verb, w->forward_only ? "forward-only, " : "", (long long)w->microbatches,
             (long long)w->stages, (long long)w->ranks);
    return a;
}

static bool same_figures(const hr__word *a, const hr__word *b)
{
    return a->deed == b->deed && a->forward_only == b->forward_only &&
           a->microbatches == b->microbatches && a->stages == b->stages &&
           a->ranks == b->ranks;
}

/* What differs where the figures do not; NULL: nothing. */
static const char *difference(const hr__word *a, const hr__word *b)
{
    if (!same_figures(a, b))
        return "";
    if (a->hash != b->hash)
        return " in another order";
    if (a->mode != b->mode)
        return " with another scale of the loss";
    if (a->fingerprint != b->fingerprint)
        return " with other shapes or another layout";
    return NULL;
}

static hr_status compare(const hr_exec *e)
{
    int n = hr_group_size(e->world);
    for (int r = 1; r < n; r++) {
        const char *how = difference(&e->seen[0], &e->seen[r]);
        if (how)
            return hr_fail(
                HR_ERR_MISMATCH, "exec_differs", "rank %d %s%s, rank %d %s",
                hr_group_global_rank(e->world, r), what_it_does(&e->seen[r]).text, how,
                hr_group_global_rank(e->world, 0), what_it_does(&e->seen[0]).text);
    }
    return HR_OK;
}

/* One rank's refusal is that of all; the rank is named where others had none, or another one. */
static hr_status refused(const hr_exec *e)
{
    int n = hr_group_size(e->world), first = 0;
    while (first < n && e->seen[first].status >= 0)
        first++;
    if (first == n)
        return HR_OK;
    const hr__word *w = &e->seen[first];
    bool all = true;
    for (int r = 0; r < n; r++)
        all = all && strcmp(e->seen[r].text, w->text) == 0;
    const char *reason = hr_intern(w->reason);
    if (all)
        return hr_fail((hr_status)w->status, reason, "%s", w->text);
    return hr_fail((hr_status)w->status, reason, "rank %d: %s",
                   hr_group_global_rank(e->world, first), w->text);
}

hr_status hr__agree(hr_exec *e, const hr__word *w)
{
    hr_status st = gather(e, w);
    if (st < 0) /* be it on this rank alone */
        return hr__agree_not(e->world, st);
    HR_TRY(refused(e));
    return compare(e);
}
