/* Reading recorded tables, and their figures beside ours. */
#include "recorded.h"

#include "sha256.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const setting settings[2] = {
    {"unit", {.f = HR_TICKS, .i = HR_TICKS, .w = HR_TICKS}, 0},
    {"skew",
     {.f = HR_TICKS, .i = 12 * HR_TICKS / 10, .w = 8 * HR_TICKS / 10},
     HR_TICKS / 10},
};

int param(json_t *c, const char *key)
{
    return (int)json_integer_value(json_object_get(json_object_get(c, "params"), key));
}

const char *text_of(json_t *c, const char *key)
{
    const char *text = json_string_value(json_object_get(c, key));
    return text ? text : "";
}

static void write_table(FILE *f, json_t *c, json_t *ranks)
{
    size_t k;
    json_t *order;
    fprintf(f,
            "headrace schedule 1\nranks %d\nstages %d\nmicrobatches %d\nplacement %s\n",
            param(c, "p"), (int)json_integer_value(json_object_get(c, "stages")),
            param(c, "m") * (param(c, "seq_splits") ? param(c, "seq_splits") : 1),
            text_of(c, "placement"));
    if (json_is_null(json_object_get(c, "peak")))
        fputs("forward-only\n", f);
    json_array_foreach(ranks, k, order)
        fprintf(f, "rank %zu %s\n", k, json_string_value(order));
}

hr_schedule *read_table(json_t *c, json_t *ranks)
{
    char *text = NULL;
    size_t bytes = 0;
    hr_schedule *s = NULL;
    FILE *f = open_memstream(&text, &bytes);
    if (f == NULL)
        return NULL;
    write_table(f, c, ranks);
    fclose(f);
    if (hr_schedule_parse(text, bytes, &s) < 0)
        s = NULL;
    free(text);
    return s;
}

hr_figures *figures_of(hr_schedule *s, const setting *set, bool split_pairs)
{
    hr_figures *f = NULL;
    hr_simulate_opts opts = {HR_INIT(hr_simulate_opts), .split_pairs = split_pairs};
    if (hr_schedule_set_cost(s, -1, &set->cost) < 0 ||
        hr_schedule_set_comm(s, set->comm, 0) < 0 ||
        hr_schedule_simulate(s, &opts, &f) < 0)
        return NULL;
    return f;
}

int64_t ticks_of(json_t *number)
{
    return llround(json_number_value(number) * (double)HR_TICKS);
}

int64_t peak_of(json_t *c, const char *kind, int rank)
{
    json_t *list = json_object_get(json_object_get(c, "peak"), kind);
    return json_integer_value(json_array_get(list, (size_t)rank));
}

static bool same_digits(double ours, json_t *recorded)
{
    char a[32];
    char b[32];
    snprintf(a, sizeof a, "%.6f", ours);
    snprintf(b, sizeof b, "%.6f", json_number_value(recorded));
    return strcmp(a, b) == 0;
}

static verdict compare_split(hr_schedule *s, const setting *set, json_t *sim,
                             outcome *o)
{
    json_t *recorded = json_object_get(sim, "makespan_split_pairs");
    if (recorded == NULL)
        return EQUAL;
    hr_figures *f = figures_of(s, set, true);
    if (f == NULL)
        return out_differs(o, "%s, pairs split: %s", set->name, hr_last_error());
    int64_t makespan = f->makespan;
    hr_figures_destroy(f);
    return makespan == ticks_of(recorded)
               ? EQUAL
               : out_differs(o, "%s: makespan with split pairs %lld, recorded %lld",
                             set->name, (long long)makespan,
                             (long long)ticks_of(recorded));
}

static verdict compare_setting(hr_schedule *s, const setting *set, json_t *sim,
                               outcome *o)
{
    hr_figures *f = figures_of(s, set, false);
    if (json_is_null(sim)) {
        hr_figures_destroy(f);
        return f ? out_differs(o, "%s: runs, recorded is a deadlock", set->name)
                 : EQUAL;
    }
    if (f == NULL)
        return out_differs(o, "%s: %s", set->name, hr_last_error());
    verdict v = EQUAL;
    int64_t makespan = ticks_of(json_object_get(sim, "makespan"));
    int64_t span = ticks_of(json_object_get(sim, "span"));
    if (f->makespan != makespan || f->span != span)
        v = out_differs(o, "%s: makespan %lld span %lld, recorded %lld and %lld",
                        set->name, (long long)f->makespan, (long long)f->span,
                        (long long)makespan, (long long)span);
    for (int r = 0; r < f->ranks && v == EQUAL; r++) {
        json_t *b = json_array_get(json_object_get(sim, "bubble"), (size_t)r);
        if (!same_digits(f->rank[r].bubble, b))
            v = out_differs(o, "%s: bubble of rank %d %.6f, recorded %.6f", set->name,
                            r, f->rank[r].bubble, json_number_value(b));
    }
    hr_figures_destroy(f);
    return v == EQUAL ? compare_split(s, set, sim, o) : v;
}

static verdict compare_peaks(json_t *c, hr_schedule *s, outcome *o)
{
    hr_figures *f = figures_of(s, &settings[0], false);
    verdict v = EQUAL;
    if (f == NULL || json_is_null(json_object_get(c, "peak"))) {
        hr_figures_destroy(f);
        return EQUAL; /* of a deadlock, or of forwards alone, none were kept */
    }
    for (int r = 0; r < f->ranks && v == EQUAL; r++) {
        const hr_rank_figures *g = &f->rank[r];
        if (g->peak_act != peak_of(c, "act", r) ||
            g->peak_act_i != peak_of(c, "act_i", r) ||
            g->peak_wstash != peak_of(c, "wstash", r))
            v = out_differs(o, "peaks of rank %d: %d %d %d, recorded %d %d %d", r,
                            g->peak_act, g->peak_act_i, g->peak_wstash,
                            (int)peak_of(c, "act", r), (int)peak_of(c, "act_i", r),
                            (int)peak_of(c, "wstash", r));
    }
    hr_figures_destroy(f);
    return v;
}

verdict compare_figures(json_t *c, hr_schedule *s, outcome *o)
{
    json_t *sim = json_object_get(c, "sim");
    for (int k = 0; k < 2; k++) {
        verdict v =
            compare_setting(s, &settings[k], json_object_get(sim, settings[k].name), o);
        if (v != EQUAL)
            return v;
    }
    return compare_peaks(c, s, o);
}

char *order_text(const hr_schedule *s, int rank)
{
    /* A line of our text form, without its "rank N ". */
    char *text = NULL;
    char *line = NULL;
    char head[40];
    if (hr_schedule_print(s, &text) < 0)
        return NULL;
    snprintf(head, sizeof head, "\nrank %d", rank);
    char *at = strstr(text, head);
    if (at != NULL) {
        at += strlen(head);
        at += *at == ' ';
        line = strndup(at, strcspn(at, "\n"));
    }
    free(text);
    return line;
}

void order_hash(const hr_schedule *s, char hex[65])
{
    char *text = NULL;
    char *joined = NULL;
    size_t bytes = 0;
    hex[0] = '\0';
    if (hr_schedule_print(s, &text) < 0)
        return;
    FILE *f = open_memstream(&joined, &bytes);
    bool first = true;
    char *next = NULL;
    for (char *line = strtok_r(text, "\n", &next); line && f;
         line = strtok_r(NULL, "\n", &next)) {
        if (strncmp(line, "rank ", 5) != 0)
            continue;
        char *order = strchr(line + 5, ' ');
        fprintf(f, "%s%s", first ? "" : "\n", order ? order + 1 : "");
        first = false;
    }
    if (f != NULL) {
        fclose(f);
        sha256_hex(joined, bytes, hex);
    }
    free(joined);
    free(text);
}
