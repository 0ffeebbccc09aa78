/* Is a schedule sound? Each action exactly once, each transfer at both ends, everything on its
 * rank; then a replay finds whether it runs, and the peaks whether it fits. */
#include "schedule/check.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/action_text.h"
#include "schedule/peaks.h"
#include "schedule/replay.h"

#include <stdlib.h>

/* One byte a cell: which of its actions stand somewhere. */
static uint8_t bit(int kind)
{
    return (uint8_t)(1u << kind);
}

/* Names both places of an action that stands twice. */
static hr_status fail_twice(const hr_schedule *s, const hr_action *a)
{
    char text[HR__ACTION_TEXT];
    int rank[2] = {0};
    size_t at[2] = {0};
    int n = 0;
    for (int r = 0; r < s->ranks && n < 2; r++)
        for (size_t i = 0; i < s->order[r].n && n < 2; i++) {
            const hr_action *b = &s->order[r].a[i];
            if (b->kind != a->kind || b->stage != a->stage ||
                b->microbatch != a->microbatch)
                continue;
            rank[n] = r;
            at[n++] = i;
        }
    return hr_fail(HR_ERR_INVALID, "twice",
                   "%s stands twice: rank %d, position %zu, and rank %d, position %zu",
                   hr__action_print(a, text), rank[0], at[0], rank[1], at[1]);
}

static hr_status count_actions(const hr_schedule *s, uint8_t *seen)
{
    for (int r = 0; r < s->ranks; r++) {
        const hr__order *o = &s->order[r];
        for (size_t i = 0; i < o->n; i++) {
            const hr_action *a = &o->a[i];
            if (!hr__has_microbatch(a->kind))
                continue;
            uint8_t *cell = &seen[hr__cell(s, a->stage, a->microbatch)];
            if (*cell & bit(a->kind))
                return fail_twice(s, a);
            *cell |= bit(a->kind);
        }
    }
    return HR_OK;
}

static hr_status fail_missing(const hr_schedule *s, int stage, int microbatch, int kind)
{
    char text[HR__ACTION_TEXT];
    hr_action a = {
        .microbatch = microbatch, .stage = (uint16_t)stage, .kind = (uint8_t)kind};
    int rank = hr__owner(s, stage, microbatch);
    if (rank < 0)
        return hr_fail(HR_ERR_INVALID, "missing",
                       "%s is missing: stage %d is on no rank",
                       hr__action_print(&a, text), stage);
    return hr_fail(HR_ERR_INVALID, "missing", "%s is missing on rank %d",
                   hr__action_print(&a, text), rank);
}

/* The actions that a lowered schedule must have for this cell. */
static uint8_t transfers(const hr_schedule *s, int stage, int microbatch)
{
    uint8_t want = 0;
    int rank = hr__owner(s, stage, microbatch);
    if (stage > 0 && hr__owner(s, stage - 1, microbatch) != rank)
        want |= (uint8_t)(bit(HR_ACTION_RECV_F) |
                          (s->forward_only ? 0 : bit(HR_ACTION_SEND_B)));
    if (stage + 1 < s->stages && hr__owner(s, stage + 1, microbatch) != rank)
        want |= (uint8_t)(bit(HR_ACTION_SEND_F) |
                          (s->forward_only ? 0 : bit(HR_ACTION_RECV_B)));
    return want;
}

static hr_status check_cell(const hr_schedule *s, int stage, int microbatch,
                            uint8_t has)
{
    uint8_t compute = has & (bit(HR_ACTION_SEND_F) - 1);
    uint8_t split = bit(HR_ACTION_I) | bit(HR_ACTION_W);
    uint8_t backward = compute & (uint8_t)~bit(HR_ACTION_F);
    if (!(has & bit(HR_ACTION_F)))
        return fail_missing(s, stage, microbatch, HR_ACTION_F);
    if (s->forward_only && backward)
        return hr_fail(
            HR_ERR_INVALID, "twice",
            "stage %d, microbatch %d has a backward in a forward-only schedule", stage,
            microbatch);
    if (!s->forward_only && backward != bit(HR_ACTION_B) && backward != split) {
        if (backward & bit(HR_ACTION_B))
            return hr_fail(HR_ERR_INVALID, "twice",
                           "stage %d, microbatch %d has both a whole backward (B) and "
                           "a split one (I, W)",
                           stage, microbatch);
        return fail_missing(s, stage, microbatch,
                            backward == 0                 ? HR_ACTION_B
                            : backward & bit(HR_ACTION_I) ? HR_ACTION_W
                                                          : HR_ACTION_I);
    }
    if (!s->lowered)
        return HR_OK;
    uint8_t have = has & (uint8_t) ~(bit(HR_ACTION_SEND_F) - 1);
    uint8_t want = transfers(s, stage, microbatch);
    for (int kind = HR_ACTION_SEND_F; kind <= HR_ACTION_RECV_B; kind++) {
        char text[HR__ACTION_TEXT];
        hr_action a = {
            .microbatch = microbatch, .stage = (uint16_t)stage, .kind = (uint8_t)kind};
        if (want & ~have & bit(kind))
            return fail_missing(s, stage, microbatch, kind);
        if (have & ~want & bit(kind))
            return hr_fail(HR_ERR_INVALID, "unmatched",
                           "%s transfers nothing: the value does not leave its rank",
                           hr__action_print(&a, text));
    }
    return HR_OK;
}

static hr_status check_complete(const hr_schedule *s)
{
    uint8_t *seen = calloc(hr__cells(s), 1);
    if (seen == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to check %zu actions",
                       hr_schedule_actions(s));
    hr_status st = count_actions(s, seen);
    size_t cell = 0;
    for (int stage = 0; stage < s->stages && st >= 0; stage++)
        for (int m = 0; m < s->microbatches && st >= 0; m++)
            st = check_cell(s, stage, m, seen[cell++]);
    free(seen);
    return st;
}

/* A stage stands on one rank; in bidirectional schedules on two. */
static bool placed(const hr_schedule *s, int rank, const hr_action *a)
{
    if (hr__has_microbatch(a->kind))
        return hr__owner(s, a->stage, a->microbatch) == rank;
    return s->owner[a->stage] == rank || s->owner_late[a->stage] == rank;
}

/* The first action on a rank that is not its stage's; NULL if there is none. */
static const hr_action *find_misplaced(const hr_schedule *s, int *rank, size_t *at)
{
    for (*rank = 0; *rank < s->ranks; (*rank)++) {
        const hr__order *o = &s->order[*rank];
        for (*at = 0; *at < o->n; (*at)++)
            if (!placed(s, *rank, &o->a[*at]))
                return &o->a[*at];
    }
    return NULL;
}

hr_status hr__check_placed(const hr_schedule *s)
{
    int rank;
    size_t at;
    char text[HR__ACTION_TEXT];
    const hr_action *a = find_misplaced(s, &rank, &at);
    if (a == NULL)
        return HR_OK;
    int right = hr__owner(s, a->stage, a->microbatch < 0 ? 0 : a->microbatch);
    if (right < 0)
        return hr_fail(HR_ERR_INVALID, "misplaced",
                       "rank %d, position %zu: %s, but stage %d is on no rank", rank,
                       at, hr__action_print(a, text), a->stage);
    return hr_fail(HR_ERR_INVALID, "misplaced",
                   "rank %d, position %zu: %s belongs to rank %d", rank, at,
                   hr__action_print(a, text), right);
}

/* Runs it; the stuck ranks are explained only if `explain`. */
static hr_status check_runs(const hr_schedule *s, bool explain)
{
    hr__replay r;
    hr_status st = HR_OK;
    HR_TRY(hr__replay_init(&r, s, false, true));
    if (!hr__replay_run(&r))
        st = explain ? hr__stall_fail(&r) : HR_PENDING;
    hr__replay_fini(&r);
    return st;
}

static hr_status over(int rank, const char *what, int64_t is, int64_t most)
{
    return hr_fail(HR_ERR_INVALID, "limit",
                   "rank %d holds up to %lld %s, the limit is %lld", rank,
                   (long long)is, what, (long long)most);
}

static hr_status check_limits(const hr_schedule *s, const hr_check_opts *opts)
{
    if (opts == NULL || (!opts->max_act && !opts->max_wstash && !opts->max_bytes))
        return HR_OK;
    for (int r = 0; r < s->ranks; r++) {
        hr_rank_figures g;
        hr__peaks(s, r, &g);
        if (opts->max_act && g.peak_act > opts->max_act)
            return over(r, "activations", g.peak_act, opts->max_act);
        if (opts->max_wstash && g.peak_wstash > opts->max_wstash)
            return over(r, "weight gradients put off", g.peak_wstash, opts->max_wstash);
        if (opts->max_bytes && g.peak_bytes > opts->max_bytes)
            return over(r, "bytes", g.peak_bytes, opts->max_bytes);
    }
    return HR_OK;
}

hr_status hr_schedule_check(const hr_schedule *s, const hr_check_opts *opts,
                            hr_check_report *report)
{
    hr_check_report own = {0};
    hr_check_report *p = report ? report : &own;
    int rank;
    size_t at;
    *p = (hr_check_report){0};
    HR_NEED(s);
    HR_CHECK_OPTS(opts, hr_check_opts);
    hr_status first = check_complete(s);
    if (first == HR_ERR_NOMEM || (first < 0 && report == NULL))
        return first;
    /* What follows the first failure is noted without a word, so that its sentence stays. */
    p->complete = first >= 0;
    p->placed = find_misplaced(s, &rank, &at) == NULL;
    if (!p->placed)
        return first < 0 ? first : hr__check_placed(s);
    hr_status ran = check_runs(s, first >= 0);
    p->runs = ran == HR_OK;
    if (ran < 0 || first < 0)
        return ran < 0 ? ran : first;
    HR_TRY(hr__check_weights(s));
    HR_TRY(check_limits(s, opts));
    p->fits = true;
    return HR_OK;
}
