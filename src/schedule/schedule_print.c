/* Writes our text form; schedule_parse.c draws it. */
#include "base/try.h" /* HR_TRY, HR_NEED */
#include "schedule/action_text.h"

#include <stdlib.h>
#include <string.h>

static const char *const placements[] = {
    [HR_PLACEMENT_LOOP] = "loop",
    [HR_PLACEMENT_V] = "v",
    [HR_PLACEMENT_BIDIRECTIONAL] = "bidirectional",
    [HR_PLACEMENT_MAP] = "map",
};

static void print_placement(FILE *f, const hr_schedule *s)
{
    fprintf(f, "placement %s", placements[s->placement]);
    for (int i = 0; s->placement == HR_PLACEMENT_MAP && i < s->stages; i++) {
        if (s->owner[i] < 0)
            fputs(" -", f);
        else
            fprintf(f, " %d", s->owner[i]);
    }
    fputc('\n', f);
}

static void print_stage(FILE *f, const char *word, int stage)
{
    if (stage < 0)
        fprintf(f, "%s all", word);
    else
        fprintf(f, "%s %d", word, stage);
}

static void print_cost(FILE *f, int stage, const hr_stage_cost *c)
{
    print_stage(f, "cost", stage);
    for (int k = 0; k < 3; k++) {
        fputc(' ', f);
        hr__ticks_print(f, k == 0 ? c->f : k == 1 ? c->i : c->w);
    }
    fputc('\n', f);
}

static void print_bytes(FILE *f, int stage, const hr_stage_cost *c)
{
    print_stage(f, "bytes", stage);
    fprintf(f, " %lld %lld %lld\n", (long long)c->act_bytes, (long long)c->stash_bytes,
            (long long)c->boundary_bytes);
}

static bool same_cost(const hr_stage_cost *a, const hr_stage_cost *b)
{
    return a->f == b->f && a->i == b->i && a->w == b->w;
}

static bool same_bytes(const hr_stage_cost *a, const hr_stage_cost *b)
{
    return a->act_bytes == b->act_bytes && a->stash_bytes == b->stash_bytes &&
           a->boundary_bytes == b->boundary_bytes;
}

/* One line if all stages are alike, else one a stage. */
static void print_stages(FILE *f, const hr_schedule *s,
                         bool (*same)(const hr_stage_cost *, const hr_stage_cost *),
                         void (*print)(FILE *, int, const hr_stage_cost *))
{
    bool alike = true;
    for (int i = 1; i < s->stages && alike; i++)
        alike = same(&s->cost[0], &s->cost[i]);
    if (alike)
        print(f, -1, &s->cost[0]);
    for (int i = 0; i < s->stages && !alike; i++)
        print(f, i, &s->cost[i]);
}

static void print_costs(FILE *f, const hr_schedule *s)
{
    bool any = false;
    fputs("comm ", f);
    hr__ticks_print(f, s->comm);
    if (s->latency > 0) {
        fputs("\nlatency ", f);
        hr__ticks_print(f, s->latency);
    }
    fprintf(f, "\npair-discount %d\n", s->pair_discount);
    print_stages(f, s, same_cost, print_cost);
    print_stages(f, s, same_bytes, print_bytes);
    for (int i = 0; i < s->stages; i++) {
        if (!s->cost[i].recompute)
            continue;
        fputs(any ? "" : "recompute", f);
        fprintf(f, " %d", i);
        any = true;
    }
    if (any)
        fputc('\n', f);
}

static void print_order(FILE *f, int rank, const hr__order *o)
{
    fprintf(f, "rank %d", rank);
    for (size_t i = 0; i < o->n; i += (size_t)hr__slot(&o->a[i])) {
        fputc(' ', f);
        hr__slot_print(f, &o->a[i], "");
    }
    fputc('\n', f);
}

hr_status hr_schedule_print(const hr_schedule *s, char **out)
{
    size_t bytes = 0;
    HR_NEED(out);
    *out = NULL;
    HR_NEED(s);
    FILE *f = open_memstream(out, &bytes);
    if (f == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the text of a schedule");
    fprintf(f, "headrace schedule 1\nranks %d\nstages %d\nmicrobatches %d\n", s->ranks,
            s->stages, s->microbatches);
    print_placement(f, s);
    if (s->forward_only)
        fputs("forward-only\n", f);
    if (s->pieces > 1)
        fprintf(f, "pieces %d\n", s->pieces);
    print_costs(f, s);
    for (int r = 0; r < s->ranks; r++)
        print_order(f, r, &s->order[r]);
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(*out);
        *out = NULL;
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the text of a schedule");
    }
    return HR_OK;
}
