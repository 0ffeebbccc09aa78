/* Balanced splits. The smallest possible cost of the dearest stage is found by bisection: below a
 * cap, filling stages from one end takes the fewest. Then a walk from the left ends each stage
 * where its cost is nearest to an equal share of what is left, as long as the rest fits. */
#include "schedule/layout_balance.h"

#include "base/try.h" /* HR_TRY */

#include <stdlib.h>

typedef struct row {
    const int64_t *cost;
    int n;
    int stages;
    int *need; /* [n + 1] fewest stages for the entries from here on, below the cap */
    int *weighty; /* [n + 1] entries from here on that cost something */
    int64_t cap;
} row;

/* How few stages do, if none may cost more than the cap. */
static int fewest(row *r, int64_t cap)
{
    int end = r->n;
    int64_t sum = 0;
    r->need[r->n] = 0;
    for (int i = r->n - 1; i >= 0; i--) {
        sum += r->cost[i];
        while (sum > cap)
            sum -= r->cost[--end];
        r->need[i] = 1 + r->need[end];
    }
    return r->need[0];
}

static void find_cap(row *r)
{
    int64_t low = 0; /* the dearest entry */
    int64_t high = 0;
    for (int i = 0; i < r->n; i++) {
        low = r->cost[i] > low ? r->cost[i] : low;
        high += r->cost[i];
    }
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (fewest(r, middle) <= r->stages)
            high = middle;
        else
            low = middle + 1;
    }
    r->cap = low;
    (void)fewest(r, low);
}

/* Where the stage that begins at `from` ends; `left` stages follow it, and share with it
 * `rest`. */
static int end_of_stage(const row *r, int from, int left, int64_t rest, int64_t *took)
{
    int best = -1;
    int64_t sum = 0;
    int64_t off = 0;
    for (int to = from + 1; to <= r->n; to++) {
        sum += r->cost[to - 1];
        if (sum > r->cap || r->weighty[to] < left)
            break;
        if (r->weighty[to] == r->weighty[from] || r->need[to] > left)
            continue;
        int64_t miss = sum - rest / (left + 1);
        miss = miss < 0 ? -miss : miss;
        if (best >= 0 && miss > off)
            break;
        best = to;
        off = miss;
        *took = sum;
    }
    return best;
}

static hr_status check_costs(const row *r, const hr_layout *l)
{
    for (int i = 0; i < r->n; i++)
        if (r->cost[i] < 0 || r->cost[i] > HR__MAX_COST)
            return hr_fail(HR_ERR_INVALID, "layout_size",
                           "entry %d of a layout costs %lld ticks: at least 0, and at "
                           "most a million units",
                           i, (long long)r->cost[i]);
    if (r->weighty[0] < r->stages)
        return hr_fail(
            HR_ERR_INVALID, "layout_refused",
            "%d layers on %d ranks of %d chunk%s: %d parts of the model cost "
            "something, and %d stages want one each",
            l->layers, l->ranks, l->chunks, l->chunks > 1 ? "s" : "", r->weighty[0],
            r->stages);
    return HR_OK;
}

static hr_status balance(row *r, hr_layout *l)
{
    int64_t rest = 0;
    for (int i = r->n - 1; i >= 0; i--) {
        r->weighty[i] = r->weighty[i + 1] + (r->cost[i] > 0);
        rest += r->cost[i] > 0 && r->cost[i] <= HR__MAX_COST ? r->cost[i] : 0;
    }
    HR_TRY(check_costs(r, l));
    find_cap(r);
    for (int stage = 1; stage < r->stages; stage++) {
        int64_t took = 0;
        l->first[stage] =
            end_of_stage(r, l->first[stage - 1], r->stages - stage, rest, &took);
        rest -= took;
    }
    return HR_OK;
}

hr_status hr__layout_balance(const int64_t *cost, hr_layout *l)
{
    row r = {.cost = cost,
             .n = hr__layout_row(l->layers, l->mtp),
             .stages = hr_layout_stages(l)};
    r.need = calloc((size_t)r.n + 1, sizeof *r.need);
    r.weighty = calloc((size_t)r.n + 1, sizeof *r.weighty);
    hr_status st = HR_OK;
    if (r.need == NULL || r.weighty == NULL)
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory to balance %d layers", r.n);
    else
        st = balance(&r, l);
    free(r.need);
    free(r.weighty);
    return st;
}
