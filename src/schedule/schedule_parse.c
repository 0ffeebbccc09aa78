/* Reads our text form:
 *
 *     headrace schedule 1
 *     ranks 2
 *     stages 2
 *     microbatches 2
 *     placement loop            (v, bidirectional, or map and a rank a stage, - for none)
 *     forward-only              (if so)
 *     pieces 2                  (of a sequence, each a microbatch, if any)
 *     comm 0.1
 *     latency 0.02              (if any)
 *     pair-discount 10          (percent)
 *     cost all 1 1.2 0.8        (F, I, W; a stage's number in place of `all`)
 *     bytes all 3 2 1           (activation, of it the stash, boundary)
 *     recompute 1               (stages)
 *     rank 0 0F0 0F1 0B0 0B1
 *     rank 1 1F0 1B0 1F1 1B1
 *
 * The four sizes come first, one line a rank last. */
#include "schedule/schedule_text.h"

#include "base/try.h" /* HR_TRY */

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    hr__lines lines;
    const char *at, *end;        /* the line's rest */
    const char *word, *word_end; /* the word that was read */
    int field;                   /* its number in the line, from 1 */
    hr_schedule_shape shape;
    int *map;
    hr_schedule *s; /* once the placement is known */
    int next_rank;
    hr__slot_text slot;
} reader;

static bool next_word(reader *r)
{
    while (r->at < r->end && *r->at == ' ')
        r->at++;
    r->word = r->at;
    while (r->at < r->end && *r->at != ' ')
        r->at++;
    r->word_end = r->at;
    r->field++;
    return r->word < r->word_end;
}

static bool word_is(const reader *r, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(r->word_end - r->word) == n && memcmp(r->word, text, n) == 0;
}

static hr_status wrong(const reader *r, const char *why)
{
    return hr__field_fail(r->lines.line, r->field, r->word, r->word_end, why);
}

static hr_status number(reader *r, int64_t most, int64_t *out)
{
    if (!next_word(r) || !hr__number_read(r->word, r->word_end, most, out))
        return wrong(r, "a whole number is expected, not too large");
    return HR_OK;
}

static hr_status ticks(reader *r, int64_t *out)
{
    if (!next_word(r) || !hr__ticks_read(r->word, r->word_end, out))
        return wrong(r, "a cost is expected: at most a million, six places");
    return HR_OK;
}

static hr_status line_ends(reader *r)
{
    return next_word(r) ? wrong(r, "nothing is expected here") : HR_OK;
}

static bool next_line(reader *r)
{
    r->field = 0;
    return hr__line(&r->lines, &r->at, &r->end);
}

static hr_status expect(reader *r, const char *word, const char *why)
{
    if (!next_line(r))
        r->at = r->end;
    return next_word(r) && word_is(r, word) ? HR_OK : wrong(r, why);
}

static hr_status size_line(reader *r, const char *word, const char *why, int *out)
{
    int64_t v = 0;
    HR_TRY(expect(r, word, why));
    HR_TRY(number(r, INT32_MAX - 1, &v));
    *out = (int)v;
    return line_ends(r);
}

static hr_status read_map(reader *r)
{
    if (r->shape.stages < 1 || r->shape.stages > HR__MAX_STAGES)
        return wrong(r, "a map of this many stages");
    r->map = calloc((size_t)r->shape.stages, sizeof *r->map);
    if (r->map == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a map of stages");
    for (int s = 0; s < r->shape.stages; s++) {
        int64_t rank = -1;
        if (!next_word(r))
            return wrong(r, "the map has fewer ranks than there are stages");
        if (!word_is(r, "-") &&
            !hr__number_read(r->word, r->word_end, HR__MAX_STAGES, &rank))
            return wrong(r, "the number of a rank is expected");
        r->map[s] = (int)rank;
    }
    r->shape.rank_of_stage = r->map;
    return HR_OK;
}

static hr_status read_head(reader *r)
{
    HR_TRY(expect(r, "headrace", "the text must start with 'headrace schedule 1'"));
    if (!next_word(r) || !word_is(r, "schedule"))
        return wrong(r, "'schedule' is expected");
    if (!next_word(r) || !word_is(r, "1"))
        return wrong(r, "only version 1 is known");
    HR_TRY(line_ends(r));
    HR_TRY(size_line(r, "ranks", "'ranks' is expected", &r->shape.ranks));
    HR_TRY(size_line(r, "stages", "'stages' is expected", &r->shape.stages));
    HR_TRY(size_line(r, "microbatches", "'microbatches' is expected",
                     &r->shape.microbatches));
    HR_TRY(expect(r, "placement", "'placement' is expected"));
    next_word(r);
    if (word_is(r, "loop"))
        r->shape.placement = HR_PLACEMENT_LOOP;
    else if (word_is(r, "v"))
        r->shape.placement = HR_PLACEMENT_V;
    else if (word_is(r, "bidirectional"))
        r->shape.placement = HR_PLACEMENT_BIDIRECTIONAL;
    else if (word_is(r, "map"))
        r->shape.placement = HR_PLACEMENT_MAP;
    else
        return wrong(r, "a placement is expected: loop, v, bidirectional or map");
    if (r->shape.placement == HR_PLACEMENT_MAP)
        HR_TRY(read_map(r));
    HR_TRY(line_ends(r));
    return hr_schedule_create(&r->shape, &r->s);
}

/* Which stages a cost or bytes line is for. */
static hr_status read_stages(reader *r, int *stage)
{
    int64_t v = 0;
    *stage = -1;
    if (!next_word(r))
        return wrong(r, "'all' or the number of a stage is expected");
    if (word_is(r, "all"))
        return HR_OK;
    if (!hr__number_read(r->word, r->word_end, r->s->stages - 1, &v))
        return wrong(r, "'all' or the number of a stage is expected");
    *stage = (int)v;
    return HR_OK;
}

static hr_status read_cost(reader *r, bool bytes)
{
    int stage;
    int64_t v[3];
    HR_TRY(read_stages(r, &stage));
    for (int k = 0; k < 3; k++)
        HR_TRY(bytes ? number(r, HR__MAX_BYTES, &v[k]) : ticks(r, &v[k]));
    HR_TRY(line_ends(r));
    for (int i = stage < 0 ? 0 : stage; i < (stage < 0 ? r->s->stages : stage + 1);
         i++) {
        hr_stage_cost c = r->s->cost[i];
        int64_t *field[] = {bytes ? &c.act_bytes : &c.f, bytes ? &c.stash_bytes : &c.i,
                            bytes ? &c.boundary_bytes : &c.w};
        for (int k = 0; k < 3; k++)
            *field[k] = v[k];
        HR_TRY(hr_schedule_set_cost(r->s, i, &c));
    }
    return HR_OK;
}

static hr_status read_recompute(reader *r)
{
    while (next_word(r)) {
        int64_t v = 0;
        if (!hr__number_read(r->word, r->word_end, r->s->stages - 1, &v))
            return wrong(r, "the number of a stage is expected");
        r->s->cost[v].recompute = true;
    }
    return HR_OK;
}

static hr_status read_pieces(reader *r)
{
    int64_t v = 0;
    HR_TRY(number(r, r->s->microbatches, &v));
    if (v < 1 || r->s->microbatches % v != 0)
        return wrong(r, "a number that divides the microbatches is expected");
    r->s->pieces = (int)v;
    return line_ends(r);
}

static hr_status read_slot(reader *r, int rank)
{
    const char *why = hr__slot_read(r->word, r->word_end, "", &r->slot);
    if (why != NULL)
        return wrong(r, why);
    for (int k = 0; k < r->slot.n; k++) {
        const hr_action *a = &r->slot.a[k];
        if (a->stage >= r->s->stages)
            return wrong(r, "there is no such stage");
        if (a->microbatch >= r->s->microbatches)
            return wrong(r, "there is no such microbatch");
    }
    return hr__append(r->s, rank, r->slot.a, r->slot.n, r->slot.pair);
}

static hr_status read_rank(reader *r)
{
    int64_t rank = 0;
    HR_TRY(number(r, r->s->ranks - 1, &rank));
    if (rank != r->next_rank)
        return wrong(r, "the ranks must stand in order, each once");
    r->next_rank++;
    while (next_word(r))
        HR_TRY(read_slot(r, (int)rank));
    return HR_OK;
}

static hr_status read_line(reader *r)
{
    int64_t v = 0;
    if (!next_word(r))
        return wrong(r, "an empty line");
    if (word_is(r, "rank"))
        return read_rank(r);
    if (r->next_rank > 0)
        return wrong(r, "after the first rank only ranks may follow");
    if (word_is(r, "forward-only")) {
        r->s->forward_only = true;
        return line_ends(r);
    }
    if (word_is(r, "pieces"))
        return read_pieces(r);
    if (word_is(r, "comm")) {
        HR_TRY(ticks(r, &r->s->comm));
        return line_ends(r);
    }
    if (word_is(r, "latency")) {
        HR_TRY(ticks(r, &r->s->latency));
        return line_ends(r);
    }
    if (word_is(r, "pair-discount")) {
        HR_TRY(number(r, 100, &v));
        r->s->pair_discount = (int)v;
        return line_ends(r);
    }
    if (word_is(r, "cost") || word_is(r, "bytes"))
        return read_cost(r, word_is(r, "bytes"));
    if (word_is(r, "recompute"))
        return read_recompute(r);
    return wrong(r, "no such line in a schedule");
}

static hr_status read_all(reader *r)
{
    HR_TRY(read_head(r));
    while (next_line(r))
        HR_TRY(read_line(r));
    if (r->next_rank < r->s->ranks)
        return hr_fail(HR_ERR_PARSE, "ranks_missing",
                       "the text ends after line %d with %d of %d ranks", r->lines.line,
                       r->next_rank, r->s->ranks);
    return HR_OK;
}

hr_status hr_schedule_parse(const char *text, size_t bytes, hr_schedule **out)
{
    HR_NEED(out);
    *out = NULL;
    HR_NEED(text);
    HR_TRY(hr__text_check(text, bytes));
    reader r = {.lines = {.next = text, .end = text + bytes},
                .at = text,
                .end = text,
                .shape = {HR_INIT(hr_schedule_shape)}};
    hr_status st = read_all(&r);
    free(r.map);
    if (st < 0)
        hr_schedule_destroy(r.s);
    else
        *out = r.s;
    return st;
}
