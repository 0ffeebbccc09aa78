/* Empty tasks a second in StarPU with one CPU worker: each on the same datum, which orders them as a
 * stream does; and without data, where only the single worker does. The better counts for stream.launch. */
#include "launch_rounds.h"
#include <starpu.h>

static starpu_data_handle_t token;

static void nothing(void *buffers[], void *arg) {}

static struct starpu_codelet on_datum = {
    .cpu_funcs = {nothing}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "empty"};
static struct starpu_codelet without_data = {.cpu_funcs = {nothing}, .name = "empty"};

static void submit(struct starpu_codelet *codelet)
{
    struct starpu_task *task = starpu_task_create();
    task->cl = codelet;
    if (codelet->nbuffers > 0)
        task->handles[0] = token;
    if (starpu_task_submit(task) != 0)
        exit(1);
}

static void run_on_datum(int tasks)
{
    for (int i = 0; i < tasks; i++)
        submit(&on_datum);
    starpu_task_wait_for_all();
}

static void run_without_data(int tasks)
{
    for (int i = 0; i < tasks; i++)
        submit(&without_data);
    starpu_task_wait_for_all();
}

int main(void)
{
    struct starpu_conf conf;
    static long datum;
    starpu_conf_init(&conf);
    conf.ncpus = 1;
    conf.sched_policy_name = "eager";
    if (starpu_init(&conf) != 0)
        return 1;
    starpu_variable_data_register(&token, STARPU_MAIN_RAM, (uintptr_t)&datum,
                                  sizeof datum);
    launch_measure("starpu on a datum", run_on_datum, 20000);
    launch_measure("starpu without data", run_without_data, 20000);
    starpu_data_unregister(token);
    starpu_shutdown();
    return 0;
}
