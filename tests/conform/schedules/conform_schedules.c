/* Runs the recorded pipeline schedules of five projects against the library: the folder is the
 * first argument, else HEADRACE_CONFORMANCE, else the repository's copy; a second argument
 * selects cases by a part of their name, `list` as the third names the tables of ours that
 * are not equal. Prints a line a file and the first differences; any difference, or no case
 * at all, makes it fail. What the records mean is in data/schedules/README.md.
 *
 * What is left out is left out by a rule with a reason, never by the name of a case. */
#include "recorded.h"

#include <stdlib.h>
#include <string.h>

static const struct file {
    const char *name;
    const char *base; /* the file with the sizes of the same cases */
    verdict (*run)(json_t *c, context *x, outcome *o);
} files[] = {
    {"torch.jsonl", NULL, run_table_case},
    {"deepseek.jsonl", NULL, run_table_case},
    {"zb.jsonl", NULL, run_table_case},
    {"deepspeed.jsonl", NULL, run_table_case},
    {"megatron.jsonl", NULL, run_table_case},
    {"rejected.jsonl", NULL, run_rejected_case},
    {"defective.jsonl", NULL, run_defective_case},
    {"torch_actions.jsonl", NULL, run_action_case},
    {"torch_verdicts.jsonl", NULL, run_verdict_case},
    {"torch_csv.jsonl", NULL, run_csv_case},
    {"torch_lowered.jsonl", "torch.jsonl", run_lowered_case},
    {"zb_lowered.jsonl", "zb.jsonl", run_lowered_case},
    {"deepspeed_stream.jsonl", "deepspeed.jsonl", run_stream_case},
    {"microbatch_counts.json", NULL, run_counts_case},
    {"schedule_tables.json", NULL, run_chunks_case},
};

/* `dir` NULL: the repository's copies, which lie beside those of other runners. */
static FILE *open_in(const char *dir, const char *name)
{
    char path[1024];
    bool list = strcmp(name + strlen(name) - 5, ".json") == 0;
    if (dir == NULL)
        dir = list ? MEGATRON_DATA : SCHEDULE_DATA;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return fopen(path, "r");
}

/* The next line's object; NULL at the end, *bad if a line is none. In a list of cases too, each
 * stands on a line. */
static json_t *next_case(FILE *f, char **line, size_t *room, bool *bad)
{
    json_error_t err;
    do {
        if (getline(line, room, f) <= 0)
            return NULL;
        (*line)[strcspn(*line, "\n")] = '\0';
        size_t n = strlen(*line);
        if (n > 0 && (*line)[n - 1] == ',')
            (*line)[n - 1] = '\0';
    } while ((*line)[strspn(*line, "[]")] ==
             '\0'); /* empty, or a bracket of the list */
    json_t *c = json_loads(*line, 0, &err);
    if (!json_is_object(c)) {
        printf("  no object: %s\n", c ? "another kind of value" : err.text);
        json_decref(c);
        *bad = true;
        return NULL;
    }
    return c;
}

/* All cases of a file, by name. */
static json_t *load_base(const char *dir, const char *name)
{
    json_t *all = json_object();
    FILE *f = name ? open_in(dir, name) : NULL;
    char *line = NULL;
    size_t room = 0;
    bool bad = false;
    json_t *c;
    while (f && (c = next_case(f, &line, &room, &bad)) != NULL)
        json_object_set_new(all, text_of(c, "case"), c);
    free(line);
    if (f != NULL)
        fclose(f);
    return all;
}

static const char *name_of(json_t *c)
{
    const char *key[] = {"case", "name", "text"};
    for (int k = 0; k < 3; k++)
        if (json_object_get(c, key[k]))
            return text_of(c, key[k]);
    return "";
}

static void run_case(const struct file *f, json_t *c, context *x, tally *t)
{
    outcome o = {.reason = NULL};
    verdict v = f->run(c, x, &o);
    tally_case(t, name_of(c), v, &o);
}

/* False if the file is there and cannot be read. */
static bool run_file(const char *dir, const struct file *f, const char *only, bool list,
                     target_list *targets, tally *t)
{
    FILE *there = open_in(dir, f->name);
    if (there == NULL)
        return true;
    context x = {.base = load_base(dir, f->base), .list = list, .targets = targets};
    char *line = NULL;
    size_t room = 0;
    bool bad = false;
    json_t *c;
    while ((c = next_case(there, &line, &room, &bad)) != NULL) {
        if (only == NULL || strstr(name_of(c), only))
            run_case(f, c, &x, t);
        json_decref(c);
    }
    free(line);
    fclose(there);
    json_decref(x.base);
    tally_print(t, f->name);
    const claims *n = &x.claims;
    if (n->equal + n->not_above + n->above > 0)
        printf("  generated: %d equal action by action, %d not above, %d above; %d "
               "without "
               "generator\n",
               n->equal, n->not_above, n->above, n->unclaimed);
    return !bad;
}

int main(int argc, char **argv)
{
    const char *env = getenv("HEADRACE_CONFORMANCE");
    const char *dir = argc > 1 && argv[1][0] ? argv[1] : env && env[0] ? env : NULL;
    const char *only = argc > 2 && argv[2][0] ? argv[2] : NULL;
    bool list = argc > 3 && strcmp(argv[3], "list") == 0;
    int passed = 0;
    int failed = 0;
    target_list targets = {.n = 0};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        tally t = {0};
        if (!run_file(dir, &files[i], only, list, &targets, &t))
            failed++;
        passed += t.equal;
        failed += t.run - t.equal;
    }
    tally found = {0};
    targets_run(&targets, list, &found);
    targets_fini(&targets);
    passed += found.equal;
    failed += found.run - found.equal;
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
