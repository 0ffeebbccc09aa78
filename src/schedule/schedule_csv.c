/* PyTorch's pipelining CSV: a line a rank, a field an action. The file holds no sizes and no
 * placement: they follow from the actions, so that a stage on two lines is an error. */
#include "schedule/schedule_text.h"

#include "base/try.h" /* HR_TRY */

#include <stdlib.h>
#include <string.h>

#define SUFFIX "OVERLAP_F_B"

typedef struct reader {
    hr__lines lines;
    hr__order *rank; /* a line each */
    int ranks, cap;
    int *owner; /* [HR__MAX_STAGES] the line a stage stands on, -1 none */
    int stages, microbatches;
    bool backward;
    hr__slot_text slot;
} reader;

static hr_status add_line(reader *r)
{
    if (r->ranks == HR__MAX_STAGES)
        return hr_fail(HR_ERR_PARSE, "ranks", "more than %d lines, which are ranks",
                       HR__MAX_STAGES);
    if (r->ranks == r->cap) {
        int cap = r->cap ? 2 * r->cap : 16;
        hr__order *o = realloc(r->rank, (size_t)cap * sizeof *o);
        if (o == NULL)
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d ranks", cap);
        r->rank = o;
        r->cap = cap;
    }
    r->rank[r->ranks++] = (hr__order){NULL, 0, 0};
    return HR_OK;
}

static hr_status add_action(reader *r, const hr_action *a)
{
    hr__order *o = &r->rank[r->ranks - 1];
    if (o->n == o->cap) {
        size_t cap = o->cap ? 2 * o->cap : 64;
        hr_action *grown = realloc(o->a, cap * sizeof *grown);
        if (grown == NULL)
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %zu actions", cap);
        o->a = grown;
        o->cap = cap;
    }
    o->a[o->n++] = *a;
    return HR_OK;
}

/* Puts the action's stage on this line; false if it stands on another. */
static bool claim(reader *r, const hr_action *a)
{
    int rank = r->ranks - 1;
    if (r->owner[a->stage] < 0)
        r->owner[a->stage] = rank;
    if (a->stage >= r->stages)
        r->stages = a->stage + 1;
    if (a->microbatch >= r->microbatches)
        r->microbatches = a->microbatch + 1;
    r->backward |= a->kind >= HR_ACTION_B && a->kind <= HR_ACTION_W;
    return r->owner[a->stage] == rank;
}

static hr_status read_field(reader *r, int field, const char *at, const char *end)
{
    while (at < end && *at == ' ')
        at++;
    while (at < end && end[-1] == ' ')
        end--;
    if (at == end)
        return HR_OK; /* an idle step */
    const char *why = hr__slot_read(at, end, SUFFIX, &r->slot);
    for (int k = 0; k < r->slot.n && why == NULL; k++) {
        hr_action *a = &r->slot.a[k];
        if (!claim(r, a))
            return hr_fail(HR_ERR_PARSE, "stage_twice",
                           "line %d, field %d '%.*s': stage %d stands on line %d too",
                           r->lines.line, field, (int)(end - at > 40 ? 40 : end - at),
                           at, a->stage, r->owner[a->stage] + 1);
        a->pair = r->slot.pair ? (uint8_t)(r->slot.n - k) : 0;
        HR_TRY(add_action(r, a));
    }
    return why ? hr__field_fail(r->lines.line, field, at, end, why) : HR_OK;
}

static hr_status read_lines(reader *r)
{
    const char *at;
    const char *end;
    while (hr__line(&r->lines, &at, &end)) {
        int field = 1;
        HR_TRY(add_line(r));
        for (; at <= end; field++) {
            const char *comma = memchr(at, ',', (size_t)(end - at));
            const char *stop = comma ? comma : end;
            HR_TRY(read_field(r, field, at, stop));
            at = stop + 1;
        }
    }
    if (r->microbatches == 0)
        return hr_fail(HR_ERR_PARSE, "empty",
                       "%d lines hold no action with a microbatch", r->lines.line);
    return HR_OK;
}

static bool is_map(const reader *r, int *rule)
{
    return memcmp(r->owner, rule, (size_t)r->stages * sizeof *rule) == 0;
}

static hr_status infer_placement(const reader *r, hr_placement *out)
{
    int *rule = malloc((size_t)r->stages * sizeof *rule);
    if (rule == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a map of stages");
    *out = HR_PLACEMENT_MAP;
    hr__place_loop(r->ranks, r->stages, rule);
    if (is_map(r, rule))
        *out = HR_PLACEMENT_LOOP;
    if (*out == HR_PLACEMENT_MAP && r->stages == 2 * r->ranks) {
        hr__place_v(r->ranks, r->stages, rule);
        if (is_map(r, rule))
            *out = HR_PLACEMENT_V;
    }
    free(rule);
    return HR_OK;
}

static hr_status build(reader *r, hr_schedule **out)
{
    hr_schedule_shape shape = {
        HR_INIT(hr_schedule_shape), .ranks = r->ranks,
        .stages = r->stages,        .microbatches = r->microbatches,
        .rank_of_stage = r->owner,  .forward_only = !r->backward,
    };
    HR_TRY(infer_placement(r, &shape.placement));
    HR_TRY(hr_schedule_create(&shape, out));
    for (int k = 0; k < r->ranks; k++) {
        const hr__order *o = &r->rank[k];
        for (size_t i = 0; i < o->n; i += (size_t)hr__slot(&o->a[i]))
            HR_TRY(hr__append(*out, k, &o->a[i], hr__slot(&o->a[i]), o->a[i].pair > 0));
    }
    return HR_OK;
}

hr_status hr_schedule_parse_csv(const char *text, size_t bytes, hr_schedule **out)
{
    HR_NEED(out);
    *out = NULL;
    HR_NEED(text);
    HR_TRY(hr__text_check(text, bytes));
    reader r = {.lines = {.next = text, .end = text + bytes}};
    r.owner = malloc(HR__MAX_STAGES * sizeof *r.owner);
    if (r.owner == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a map of stages");
    for (int i = 0; i < HR__MAX_STAGES; i++)
        r.owner[i] = -1;
    hr_status st = read_lines(&r);
    if (st >= 0)
        st = build(&r, out);
    if (st < 0) {
        hr_schedule_destroy(*out);
        *out = NULL;
    }
    for (int k = 0; k < r.ranks; k++)
        free(r.rank[k].a);
    free(r.rank);
    free(r.owner);
    return st;
}

hr_status hr_schedule_print_csv(const hr_schedule *s, char **out)
{
    size_t bytes = 0;
    HR_NEED(out);
    *out = NULL;
    HR_NEED(s);
    if (s->placement == HR_PLACEMENT_BIDIRECTIONAL)
        return hr_fail(HR_ERR_UNSUPPORTED, "csv_bidirectional",
                       "CSV has one rank a stage: a bidirectional schedule of %d ranks "
                       "cannot be written",
                       s->ranks);
    FILE *f = open_memstream(out, &bytes);
    if (f == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the text of a schedule");
    for (int r = 0; r < s->ranks; r++) {
        const hr__order *o = &s->order[r];
        for (size_t i = 0; i < o->n; i += (size_t)hr__slot(&o->a[i])) {
            fputs(i ? "," : "", f);
            hr__slot_print(f, &o->a[i], SUFFIX);
        }
        fputs("\r\n", f);
    }
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(*out);
        *out = NULL;
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the text of a schedule");
    }
    return HR_OK;
}
