/* PyTorch's action strings, verdicts and CSV files. */
#include "recorded.h"

#include <stdlib.h>
#include <string.h>

static hr_schedule *read_csv(const char *text)
{
    hr_schedule *s = NULL;
    return hr_schedule_parse_csv(text, strlen(text), &s) < 0 ? NULL : s;
}

/* Text and what PyTorch reads, but for blanks and leading zeros: then nothing was dropped. */
static bool same_text(const char *a, const char *b)
{
    for (;;) {
        while (*a == ' ')
            a++;
        while (*b == ' ')
            b++;
        while (*a == '0' && a[1] >= '0' && a[1] <= '9')
            a++;
        if (*a != *b)
            return false;
        if (*a == '\0')
            return true;
        for (bool number = *a >= '0' && *a <= '9'; *a && *a == *b;) {
            a++, b++;
            if (!number || *a < '0' || *a > '9')
                break;
        }
    }
}

static bool lacks_microbatch(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && (text[n - 1] < '0' || text[n - 1] > '9') && strlen(text) < 4;
}

/* What PyTorch reads whole, we read alike; what it drops a part of, or refuses, we refuse. */
verdict run_action_case(json_t *c, context *x, outcome *o)
{
    const char *text = text_of(c, "text");
    json_t *reads = json_object_get(c, "reads_as");
    char line[200];
    /* Beside an action that is always there, as an idle step alone is no schedule; its stage
     * is one that no case uses. */
    snprintf(line, sizeof line, "%s\n99F0", text);
    hr_schedule *s = read_csv(line);
    bool idle = json_is_null(reads);
    bool whole = json_is_string(reads) && same_text(text, json_string_value(reads)) &&
                 !lacks_microbatch(json_string_value(reads));
    if ((s != NULL) != (idle || whole)) {
        hr_schedule_destroy(s);
        return out_differs(o, "'%s' is %s", text, s ? "read" : hr_last_error());
    }
    if (s == NULL)
        return EQUAL;
    char *csv = NULL;
    verdict v = EQUAL;
    size_t n;
    hr_schedule_order(s, 0, &n);
    if (idle && n != 0)
        v = out_differs(o, "'%s' is no idle step", text);
    if (!idle && hr_schedule_print_csv(s, &csv) >= 0) {
        csv[strcspn(csv, "\r")] = '\0';
        if (strcmp(csv, json_string_value(reads)) != 0)
            v = out_differs(o, "'%s' reads as '%s', recorded '%s'", text, csv,
                            json_string_value(reads));
    }
    free(csv);
    hr_schedule_destroy(s);
    return v;
}

/* The orders as CSV. */
static hr_schedule *read_orders(json_t *ranks)
{
    char csv[2000] = "";
    size_t k;
    json_t *order;
    json_array_foreach(ranks, k, order)
    {
        size_t at = strlen(csv);
        snprintf(csv + at, sizeof csv - at, "%s\n", json_string_value(order));
        for (char *p = csv + at; *p; p++)
            *p = *p == ' ' ? ',' : *p;
    }
    return read_csv(csv);
}

/* The same with the sizes of the case; each stage where the orders have it, if on one rank. */
static hr_schedule *read_sized(json_t *c)
{
    char text[2200];
    json_t *ranks = json_object_get(c, "ranks");
    int stages = (int)json_integer_value(json_object_get(c, "stages"));
    hr_schedule *s = read_orders(ranks);
    size_t k;
    json_t *order;
    int n =
        snprintf(text, sizeof text,
                 "headrace schedule 1\nranks %d\nstages %d\nmicrobatches %d\n"
                 "placement %s",
                 (int)json_array_size(ranks), stages,
                 (int)json_integer_value(json_object_get(c, "m")), s ? "map" : "loop");
    for (int i = 0; s && i < stages; i++) {
        int rank = hr_schedule_rank_of(s, i, 0);
        char word[16];
        snprintf(word, sizeof word, rank < 0 ? "-" : "%d", rank);
        n += snprintf(text + n, sizeof text - (size_t)n, " %s", word);
    }
    hr_schedule_destroy(s);
    json_array_foreach(ranks, k, order)
    {
        n += snprintf(text + n, sizeof text - (size_t)n, "\nrank %zu ", k);
        for (const char *p = json_string_value(order); *p; p++)
            if (strncmp(p, "OVERLAP_F_B", 11) == 0)
                p += 10; /* our text has no word after a pair */
            else
                text[n++] = *p;
    }
    return hr_schedule_parse(text, (size_t)n, &s) < 0 ? NULL : s;
}

/* Our verdicts: is each action there once, and does the table run? */
verdict run_verdict_case(json_t *c, context *x, outcome *o)
{
    hr_check_report report = {0};
    hr_schedule *s = read_sized(c);
    hr_status st = s ? hr_schedule_check(s, NULL, &report) : HR_ERR_PARSE;
    bool sound = report.complete && report.placed && report.runs;
    hr_schedule_destroy(s);
    if ((st >= 0) != sound)
        return out_differs(o, "the check and its report disagree");
    bool complete = json_is_true(json_object_get(c, "complete"));
    bool runs = json_is_true(json_object_get(c, "runs"));
    if (report.complete != complete || report.runs != runs)
        return out_differs(o, "complete %d runs %d, recorded %d and %d",
                           report.complete, report.runs, complete, runs);
    return EQUAL;
}

/* A copy without communication. */
static hr_schedule *computing(const hr_schedule *s)
{
    hr_schedule_shape shape;
    hr_schedule *out = NULL;
    hr_schedule_get_shape(s, &shape);
    if (hr_schedule_create(&shape, &out) < 0)
        return NULL;
    for (int r = 0; r < shape.ranks; r++) {
        size_t n;
        const hr_action *a = hr_schedule_order(s, r, &n);
        for (size_t i = 0; i < n;) {
            int slot = a[i].pair ? a[i].pair : 1;
            if (a[i].kind <= HR_ACTION_W &&
                hr_schedule_append(out, r, &a[i], slot) < 0) {
                hr_schedule_destroy(out);
                return NULL;
            }
            i += (size_t)slot;
        }
    }
    return out;
}

/* Both texts are read, are sound, hold the same computations; the lowered one is written again
 * to the byte. */
verdict run_csv_case(json_t *c, context *x, outcome *o)
{
    hr_schedule *plain = read_csv(text_of(c, "compute_only"));
    hr_schedule *lowered = read_csv(text_of(c, "compute_comms"));
    hr_schedule *bare = lowered ? computing(lowered) : NULL;
    char *csv = NULL;
    verdict v = EQUAL;
    if (plain == NULL || bare == NULL)
        v = out_differs(o, "%s", hr_last_error());
    else if (hr_schedule_check(plain, NULL, NULL) < 0 ||
             hr_schedule_check(lowered, NULL, NULL) < 0)
        v = out_differs(o, "%s", hr_last_error());
    else if (!hr_schedule_equal(plain, bare))
        v = out_differs(o, "the two texts hold different computations");
    else if (hr_schedule_print_csv(lowered, &csv) < 0 ||
             strcmp(csv, text_of(c, "compute_comms")) != 0)
        v = out_differs(o, "written again it is another text");
    free(csv);
    hr_schedule_destroy(plain);
    hr_schedule_destroy(lowered);
    hr_schedule_destroy(bare);
    return v;
}

static bool is_reshard(const hr_action *a)
{
    return a->kind == HR_ACTION_RESHARD;
}

/* Equal, where RESHARDs in one place may come in any order (PyTorch's come from a set). */
static bool same_lowered(const hr_schedule *a, const hr_schedule *b, int rank,
                         size_t *at)
{
    size_t n[2];
    const hr_action *x = hr_schedule_order(a, rank, &n[0]);
    const hr_action *y = hr_schedule_order(b, rank, &n[1]);
    for (*at = 0; *at < n[0] && *at < n[1]; (*at)++) {
        const hr_action *p = &x[*at];
        const hr_action *q = &y[*at];
        if (is_reshard(p) && is_reshard(q)) {
            size_t from = *at;
            size_t to = *at;
            while (from > 0 && is_reshard(&x[from - 1]))
                from--;
            while (to < n[1] && is_reshard(&y[to]))
                to++;
            while (from < to && x[*at].stage != y[from].stage)
                from++;
            if (from < to)
                continue;
        }
        if (p->kind != q->kind || p->stage != q->stage ||
            p->microbatch != q->microbatch || p->pair != q->pair)
            return false;
    }
    return n[0] == n[1];
}

/* Ours, from the table's computations, is the recorded one. */
static verdict compare_lowered(const hr_schedule *recorded, outcome *o)
{
    hr_schedule *bare = computing(recorded);
    hr_schedule *ours = NULL;
    hr_schedule_shape shape;
    size_t at;
    verdict v = EQUAL;
    hr_lower_opts opts = {HR_INIT(hr_lower_opts), .shards = true};
    hr_schedule_get_shape(recorded, &shape);
    if (bare == NULL || hr_schedule_lower(bare, &opts, &ours) < 0)
        v = out_differs(o, "%s", hr_last_error());
    for (int r = 0; r < shape.ranks && v == EQUAL; r++)
        if (!same_lowered(ours, recorded, r, &at))
            v = out_differs(o, "lowered by us, rank %d differs at position %zu", r, at);
    hr_schedule_destroy(ours);
    hr_schedule_destroy(bare);
    return v;
}

/* A lowered table is sound, each send waiting for its receive; PyTorch's are what we make. */
verdict run_lowered_case(json_t *c, context *x, outcome *o)
{
    json_t *base = json_object_get(x->base, text_of(c, "case"));
    if (base == NULL)
        return out_left(o, "the case's sizes are in a file that is not there");
    hr_schedule *s = read_table(base, json_object_get(c, "ranks"));
    if (s == NULL)
        return out_differs(o, "%s", hr_last_error());
    verdict v = EQUAL;
    if (hr_schedule_check(s, NULL, NULL) < 0)
        v = out_differs(o, "%s", hr_last_error());
    else if (strncmp(text_of(c, "case"), "torch/", 6) == 0)
        v = compare_lowered(s, o);
    hr_schedule_destroy(s);
    return v;
}
