/* Layouts by hand: reading is strict, and refuses a number of layers before it counts them out. */
#include "schedule/layout.h"

#include "base/try.h" /* HR_TRY */

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 1 << 20, MAX_REPEAT = 2 << 20 };

static const char kinds[] = "EtmL"; /* in the order of the row */

typedef struct reader {
    const char *text;
    int n, at;
    int stages;
    int *first; /* [HR__MAX_STAGES + 1] */
    int count[4];
    int last; /* the kind read last */
} reader;

static hr_status fail_at(const reader *r, int at, const char *why)
{
    if (at >= r->n)
        return hr_fail(HR_ERR_PARSE, "layout", "the layout ends at position %d: %s",
                       r->n, why);
    return hr_fail(HR_ERR_PARSE, "layout", "position %d of the layout, '%.1s': %s",
                   at + 1, r->text + at, why);
}

static hr_status take(reader *r, int at)
{
    const char *kind = strchr(kinds, r->text[at]);
    int total = r->count[0] + r->count[1] + r->count[2] + r->count[3];
    if (r->text[at] == '|') {
        if (r->stages == HR__MAX_STAGES)
            return fail_at(r, at, "too many stages");
        r->first[r->stages++] = total;
        return HR_OK;
    }
    int k = (int)(kind - kinds);
    if (k == 0 && total > 0)
        return fail_at(r, at, "the embedding stands first, and once");
    if (k > 0 && total == 0)
        return fail_at(r, at, "the embedding has to stand before it");
    if (r->last == 3)
        return fail_at(r, at, "it stands behind the loss");
    if (k < r->last)
        return fail_at(r, at, "a decoder layer behind a layer for prediction");
    if (r->count[k] == HR__MAX_LAYERS)
        return fail_at(r, at, "too many layers");
    r->count[k]++;
    r->last = k;
    return HR_OK;
}

static bool is_item(char c)
{
    return c != '\0' && strchr("EtmL|", c) != NULL;
}

/* "*3" if there is one. */
static hr_status repeats(reader *r, int *times)
{
    *times = 1;
    if (r->at == r->n || r->text[r->at] != '*')
        return HR_OK;
    int start = ++r->at;
    int x = 0;
    for (; r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++)
        if (x <= MAX_REPEAT)
            x = 10 * x + r->text[r->at] - '0';
    if (r->at == start)
        return fail_at(r, r->at, "a number of repeats is missing");
    if (x == 0 || x > MAX_REPEAT)
        return fail_at(r, start, x ? "too many repeats" : "repeated no times");
    *times = x;
    return HR_OK;
}

/* `(tt|)*29`: the items in it have no repeats of their own. */
static hr_status group(reader *r)
{
    int open = r->at++;
    while (r->at < r->n && (is_item(r->text[r->at]) || r->text[r->at] == ','))
        r->at++;
    if (r->at == r->n)
        return fail_at(r, open, "it is never closed");
    if (r->text[r->at] != ')')
        return fail_at(r, r->at, "only E, t, m, L, | and commas stand in brackets");
    int close = r->at++;
    int times;
    if (r->at == r->n || r->text[r->at] != '*')
        return fail_at(r, close, "brackets want a number of repeats, as in (t|)*2");
    HR_TRY(repeats(r, &times));
    int items = 0;
    for (int i = open + 1; i < close; i++)
        items += r->text[i] != ',';
    if (items == 0)
        return fail_at(r, close, "nothing in brackets");
    for (int k = 0; k < times; k++)
        for (int i = open + 1; i < close; i++)
            if (r->text[i] != ',')
                HR_TRY(take(r, i));
    return HR_OK;
}

static hr_status read_items(reader *r)
{
    while (r->at < r->n) {
        int at = r->at;
        int times;
        if (r->text[at] == '(') {
            HR_TRY(group(r));
        } else if (is_item(r->text[at])) {
            r->at++;
            HR_TRY(repeats(r, &times));
            for (int k = 0; k < times; k++)
                HR_TRY(take(r, at));
        } else if (r->text[at] == ',') {
            r->at++;
        } else if (r->text[at] > ' ' && r->text[at] <= '~') {
            return fail_at(r, at, "none of E, t, m, L, |, brackets and *");
        } else {
            return hr_fail(HR_ERR_PARSE, "layout",
                           "position %d of the layout: byte 0x%02x", at + 1,
                           (unsigned char)r->text[at]);
        }
    }
    if (r->last != 3)
        return fail_at(r, r->n,
                       r->count[0] ? "the loss is missing"
                                   : "embedding and loss are missing");
    return HR_OK;
}

static hr_status check_asked(const reader *r, const hr_layout_opts *o)
{
    int below = r->stages - r->stages % o->ranks;
    if (below == 0)
        return hr_fail(HR_ERR_INVALID, "layout_refused",
                       "the layout has %d stages, fewer than the %d ranks; %d stages "
                       "would do",
                       r->stages, o->ranks, o->ranks);
    if (below != r->stages)
        return hr_fail(HR_ERR_INVALID, "layout_refused",
                       "the layout has %d stages, which %d ranks cannot share evenly; "
                       "%d or %d stages would do",
                       r->stages, o->ranks, below, below + o->ranks);
    if (o->chunks != 0 && r->stages / o->ranks != o->chunks)
        return hr_fail(HR_ERR_INVALID, "layout_refused",
                       "the layout has %d stages, not the %d of %d ranks of %d chunks",
                       r->stages, o->ranks * o->chunks, o->ranks, o->chunks);
    if (o->placement == HR_PLACEMENT_V && r->stages != 2 * o->ranks)
        return hr_fail(HR_ERR_INVALID, "layout_refused",
                       "the layout has %d stages, not two for each of %d ranks in a V",
                       r->stages, o->ranks);
    if (o->layers != 0 && r->count[1] != o->layers)
        return hr_fail(HR_ERR_INVALID, "layout_refused",
                       "the layout has %d layers, the model %d", r->count[1],
                       o->layers);
    if (o->layers != 0 && r->count[2] != o->mtp)
        return hr_fail(HR_ERR_INVALID, "layout_refused",
                       "the layout has %d layers for prediction, the model %d",
                       r->count[2], o->mtp);
    return HR_OK;
}

static hr_status read(reader *r, const hr_layout_opts *opts, hr_layout **out)
{
    hr_layout_opts o = *opts;
    HR_TRY(read_items(r));
    HR_TRY(check_asked(r, &o));
    o.chunks = r->stages / o.ranks;
    o.layers = r->count[1];
    o.mtp = r->count[2];
    HR_TRY(hr__layout_create(&o, out));
    memcpy((*out)->first, r->first, (size_t)r->stages * sizeof *r->first);
    return HR_OK;
}

hr_status hr_layout_parse(const char *text, size_t bytes, const hr_layout_opts *opts,
                          hr_layout **out)
{
    HR_NEED(out);
    *out = NULL;
    HR_NEED(text);
    if (opts == NULL)
        return hr_fail(HR_ERR_INVALID, "layout_size", "a layout without sizes");
    HR_CHECK_OPTS(opts, hr_layout_opts);
    HR_TRY(hr__layout_check(opts));
    if (bytes > MAX_TEXT)
        return hr_fail(HR_ERR_PARSE, "layout",
                       "%zu bytes of layout: at most %d are read", bytes,
                       (int)MAX_TEXT);
    reader r = {.text = text, .n = (int)bytes, .stages = 1};
    r.first = calloc(HR__MAX_STAGES + 1, sizeof *r.first);
    if (r.first == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a layout");
    hr_status st = read(&r, opts, out);
    free(r.first);
    return st;
}

/* Entry `i` of the row. */
static char letter(const hr_layout *l, int i)
{
    int k = i == 0 ? 0 : i <= l->layers ? 1 : i <= l->layers + l->mtp ? 2 : 3;
    return kinds[k];
}

hr_status hr_layout_print(const hr_layout *l, char **out)
{
    HR_NEED(out);
    *out = NULL;
    HR_NEED(l);
    int stages = hr_layout_stages(l);
    /* A run of layers is no longer than its own count, but for "t*10" and the like. */
    size_t room = 4 * (size_t)hr__layout_row(l->layers, l->mtp) + (size_t)stages + 1;
    char *to = *out = malloc(room);
    if (to == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the text of a layout");
    for (int s = 0; s < stages; s++) {
        for (int i = l->first[s], run = 0; i < l->first[s + 1]; i += run) {
            for (run = 1;
                 i + run < l->first[s + 1] && letter(l, i + run) == letter(l, i);)
                run++;
            *to++ = letter(l, i);
            if (run > 1)
                to += sprintf(to, "*%d", run);
        }
        *to++ = s + 1 < stages ? '|' : '\0';
    }
    return HR_OK;
}
