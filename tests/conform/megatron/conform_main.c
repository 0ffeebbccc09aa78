/* Runs the recorded traces of Megatron-LM against the library: HEADRACE_CONFORMANCE (or the first
 * argument) names the folder with the files, the repository's copy is the default. Prints a line
 * a file and the first differences; any difference, or no case at all, makes it fail. What the
 * records mean is in data/megatron/README.md.
 *
 * What is left out is left out by a rule with a reason, never by the name of a case; the counts
 * and tables of schedules are for conform_schedules.
 *
 * Where the comparison gives way, and why:
 * - Records of the engine (accum; op_bwd of a single node) are skipped, as the recordings allow.
 * - Misuse that we refuse before anything is done (a spent node, no argument, an absent output, a
 *   second run of weight gradients): the reason is compared, the trace is not. What the original
 *   stores in a node before it finds it spent is not asked for (case_node.c).
 * - After a failed run of plans we close the layer's range, which the original leaves open.
 * - Numbers of copies (x.d#2) are compared one to one, since who refuses earlier makes fewer.
 * - Priorities are those of our device in place of the recorded device's (case_streams.c).
 * - A step's loss divided by the one rank of a context group (imul by 1) is no work here, and the
 *   serial loss gets a copy that is cut from the plan's graph (case_step.c).
 * - Pipelines: what is left to the transport and to the caller (case_pipeline.c, case_p2p.c). */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

static const struct file {
    const char *name;
    verdict (*run)(json_t *c, outcome *o);
} files[] = {
    {"schedule_node.json", run_node_case},
    {"layer_plan.json", run_layer_case},
    {"chunk_plan.json", run_chunk_case},
    {"no_pipelining.json", run_step_case},
    {"layer_node.json", run_policy_case},
    {"streams.json", run_streams_case},
    {"stage_grad.json", run_stage_case},
    {"rank_helpers.json", run_ranks_case},
    {"p2p_order.json", run_p2p_case},
    {"rank_grids.json", run_grid_case},
    {"group_creation.json", run_world_case},
    {"pipeline_1f1b.json", run_pipeline_case},
    {"pipeline_interleaved.json", run_pipeline_case},
};

static void run_case(const struct file *f, json_t *c, tally *t)
{
    outcome o = {.reason = NULL};
    tally_case(t, json_string_value(json_object_get(c, "name")), f->run(c, &o), &o);
}

/* Returns false if the file is there and cannot be read. */
static bool run_file(const char *dir, const struct file *f, const char *only, tally *t)
{
    char path[1024];
    json_error_t err;
    snprintf(path, sizeof path, "%s/%s", dir, f->name);
    FILE *there = fopen(path, "r");
    if (there == NULL)
        return true;
    json_t *cases = json_loadf(there, 0, &err);
    fclose(there);
    if (!json_is_array(cases)) {
        printf("%s: %s\n", path, cases ? "no list of cases" : err.text);
        json_decref(cases);
        return false;
    }
    size_t i;
    json_t *c;
    json_array_foreach(cases, i, c)
    {
        const char *name = json_string_value(json_object_get(c, "name"));
        if (only == NULL || (name && strstr(name, only)))
            run_case(f, c, t);
    }
    json_decref(cases);
    tally_print(t, f->name);
    return true;
}

int main(int argc, char **argv)
{
    const char *env = getenv("HEADRACE_CONFORMANCE");
    const char *dir = argc > 1 ? argv[1] : env && env[0] ? env : MEGATRON_DATA;
    const char *only = argc > 2 ? argv[2] : NULL; /* a part of the names to run */
    int passed = 0, failed = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        tally t = {0};
        if (!run_file(dir, &files[i], only, &t))
            failed++;
        passed += t.equal;
        failed += t.run - t.equal;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
