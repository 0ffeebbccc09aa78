/* Links are numbered once, by their ends; what is asked later is a look-up by stage and direction. */
#include "schedule/links.h"

#include <stdlib.h>

enum {
    WAYS = 4
}; /* of a stage: forward and backward, in both halves of the microbatches */

struct hr__links {
    const hr_schedule *s;
    int *number;    /* [stages][WAYS] */
    int64_t *until; /* [links] when it is free again */
};

typedef struct way {
    int from, to;
    size_t at; /* in `number` */
} way;

static int by_ends(const void *a, const void *b)
{
    const way *x = a;
    const way *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* All that leave a rank, into way[stages * WAYS]. */
static size_t list_ways(const hr_schedule *s, way *out)
{
    size_t n = 0;
    for (int i = 0; i < s->stages; i++)
        for (int k = 0; k < WAYS; k++) {
            const int *owner = k & 1 ? s->owner_late : s->owner;
            int user = k & 2 ? i - 1 : i + 1;
            if (user < 0 || user == s->stages || owner[i] < 0 || owner[user] < 0 ||
                owner[i] == owner[user])
                continue;
            out[n++] = (way){owner[i], owner[user], (size_t)i * WAYS + (size_t)k};
        }
    qsort(out, n, sizeof *out, by_ends);
    return n;
}

hr_status hr__links_create(const hr_schedule *s, hr__links **out)
{
    size_t room = (size_t)s->stages * WAYS;
    hr__links *l = calloc(1, sizeof *l);
    way *ways = malloc(room * sizeof *ways);
    *out = NULL;
    if (l != NULL) {
        l->s = s;
        l->number = malloc(room * sizeof *l->number);
        l->until = calloc(room, sizeof *l->until);
    }
    if (l == NULL || ways == NULL || l->number == NULL || l->until == NULL) {
        hr__links_destroy(l);
        free(ways);
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the links of %d stages",
                       s->stages);
    }
    for (size_t i = 0; i < room; i++)
        l->number[i] = HR__NO_LINK;
    size_t n = list_ways(s, ways);
    int links = 0;
    for (size_t i = 0; i < n; i++) {
        links += i > 0 && by_ends(&ways[i - 1], &ways[i]) != 0;
        l->number[ways[i].at] = links;
    }
    free(ways);
    *out = l;
    return HR_OK;
}

void hr__links_destroy(hr__links *l)
{
    if (l == NULL)
        return;
    free(l->number);
    free(l->until);
    free(l);
}

int hr__link_of(const hr__links *l, const hr_action *a)
{
    if (a->kind > HR_ACTION_I)
        return HR__NO_LINK;
    int which = (a->kind == HR_ACTION_F ? 0 : 2) + (a->microbatch >= l->s->half);
    return l->number[a->stage * WAYS + which];
}

int64_t hr__links_take(hr__links *l, const hr_action *a, int64_t ready)
{
    int64_t *until = &l->until[hr__link_of(l, a)];
    int64_t start = *until > ready ? *until : ready;
    *until = start + l->s->comm;
    return start;
}
