/* DeepSpeed's instruction streams: as lowered schedules whose transfers block both ends. */
#include "recorded.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word, *action;
} instructions[] = {
    {"F", "F"},       {"B", "B"},       {"SA", "SEND_F"},
    {"RA", "RECV_F"}, {"SG", "SEND_B"}, {"RG", "RECV_B"},
};
enum { INSTRUCTIONS = sizeof instructions / sizeof instructions[0] };

/* The streams name buffers; the k-th instruction of a kind is for microbatch k. What loads,
 * reduces and updates has no part in the replay. */
static json_t *actions_of(json_t *stages)
{
    json_t *ranks = json_array();
    size_t k;
    json_t *stream;
    json_array_foreach(stages, k, stream)
    {
        char *copy = strdup(json_string_value(stream));
        char *text = NULL;
        char *next = NULL;
        size_t bytes = 0;
        int count[INSTRUCTIONS] = {0};
        FILE *f = open_memstream(&text, &bytes);
        for (char *w = strtok_r(copy, " |", &next); w;
             w = strtok_r(NULL, " |", &next)) {
            w[strcspn(w, "0123456789")] = '\0';
            for (int i = 0; i < INSTRUCTIONS; i++)
                if (strcmp(w, instructions[i].word) == 0)
                    fprintf(f, " %zu%s%d", k, instructions[i].action, count[i]++);
        }
        fclose(f);
        json_array_append_new(ranks, json_string(text));
        free(text);
        free(copy);
    }
    return ranks;
}

verdict run_stream_case(json_t *c, context *x, outcome *o)
{
    json_t *base = json_object_get(x->base, text_of(c, "case"));
    if (base == NULL)
        return out_left(o, "the case's sizes are in a file that is not there");
    json_t *ranks = actions_of(json_object_get(c, "stages"));
    hr_schedule *s = read_table(base, ranks);
    json_decref(ranks);
    if (s == NULL)
        return out_differs(o, "%s", hr_last_error());
    verdict v = EQUAL;
    if (hr_schedule_check(s, NULL, NULL) < 0)
        v = out_differs(o, "%s", hr_last_error());
    for (int k = 0; k < 2 && v == EQUAL; k++) {
        json_t *all = json_object_get(base, "rendezvous_makespan");
        json_t *recorded = json_object_get(all, settings[k].name);
        hr_figures *f = NULL;
        hr_simulate_opts opts = {HR_INIT(hr_simulate_opts),
                                 .blocking = hr_schedule_is_lowered(s)};
        if (recorded == NULL)
            continue;
        if (hr_schedule_set_cost(s, -1, &settings[k].cost) < 0 ||
            hr_schedule_set_comm(s, settings[k].comm, 0) < 0 ||
            hr_schedule_simulate(s, &opts, &f) < 0)
            v = out_differs(o, "%s: %s", settings[k].name, hr_last_error());
        else if (f->makespan != ticks_of(recorded))
            v = out_differs(o, "%s: blocking makespan %lld, recorded %lld",
                            settings[k].name, (long long)f->makespan,
                            (long long)ticks_of(recorded));
        hr_figures_destroy(f);
    }
    hr_schedule_destroy(s);
    return v;
}
