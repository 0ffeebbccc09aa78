/* See engines.h. */
#include "conform/group/engines.h"
#include "conform/group/nccl_world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const engine in_process[] = {
    {.name = "local"},
    {.name = "local-rendezvous"},
    {.name = "local-buffered", .buffers = true},
    {.name = "local-delays", .delay_us = 20},
    {.name = "local-late", .delay_us = 200},
};
static const engine of_processes = {.name = "mpi", .buffers = true, .processes = true};
static const engine over_nccl = {.name = "local", .nccl = true};

const engine *engines = in_process;
int n_engines = sizeof in_process / sizeof in_process[0];
static int n_processes;

static void finish(void)
{
    int code = hr_mpi_finish(HR_OK);
    (void)code; /* that of main() is the one that counts */
}

/* The environment of Open MPI or of MPICH; all ranks do the same, so one of them prints. */
static int from_launcher(const char *name, const char *other, int none)
{
    const char *v = getenv(name) ? getenv(name) : getenv(other);
    return v ? (int)strtol(v, NULL, 10) : none;
}

__attribute__((constructor)) static void choose_engines(void)
{
    const char *groups = getenv("HEADRACE_TEST_GROUPS");
    if (groups && strcmp(groups, "nccl") == 0) {
        engines = &over_nccl;
        n_engines = 1;
        return;
    }
    if (!hr_mpi_launched())
        return;
    engines = &of_processes;
    n_engines = 1;
    n_processes = from_launcher("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1);
    if (from_launcher("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0) > 0 &&
        !freopen("/dev/null", "w", stdout))
        abort();
    if (atexit(finish) != 0)
        abort();
}

bool runs(const engine *e, int n)
{
    return !e->processes || n == n_processes;
}

void skip_across_processes(void)
{
    if (n_processes)
        skip();
}

void skip_over_nccl(void)
{
    if (engines[0].nccl)
        skip();
}

static hr_status run_processes(const hr_local_opts *o, hr_rank_fn fn, void *arg)
{
    hr_mpi_opts own = {HR_INIT(hr_mpi_opts), .timeout_s = o->timeout_s,
                       .device = o->device};
    return hr_mpi_run(&own, fn, arg);
}

hr_status run_on(const engine *e, int n, const hr_local_opts *o, hr_rank_fn fn,
                 void *arg)
{
    hr_local_opts own = {HR_INIT(hr_local_opts)};
    if (!runs(e, n))
        return HR_OK;
    if (o)
        own = *o;
    own.engine = e->name;
    own.backend = getenv("HEADRACE_DEVICE"); /* NULL: the host's */
    own.delay_us = e->delay_us;
    return e->processes ? run_processes(&own, fn, arg)
           : e->nccl    ? nccl_world(n, &own, fn, arg)
                        : hr_local_run(n, &own, fn, arg);
}

void succeeds(const int *sizes, int n_sizes, hr_rank_fn fn, void *arg)
{
    for (int e = 0; e < n_engines; e++)
        for (int i = 0; i < n_sizes; i++)
            for (int blocking = 0; blocking < 2; blocking++) {
                hr_local_opts o = {
                    HR_INIT(hr_local_opts), .timeout_s = 60,
                    .device = {HR_INIT(hr_device_opts), .launch_blocking = blocking}};
                hr_status st = run_on(&engines[e], sizes[i], &o, fn, arg);
                if (st != HR_OK)
                    print_error("%s, %d ranks%s: %s\n", engines[e].name, sizes[i],
                                blocking ? ", blocking" : "", hr_last_error());
                assert_int_equal(st, HR_OK);
            }
}

void succeeds_everywhere(hr_rank_fn fn, void *arg)
{
    static const int sizes[] = {1, 2, 3, 4, 8};
    succeeds(sizes, 5, fn, arg);
}

static void fails_on(const engine *e, int n, const hr_local_opts *o, hr_rank_fn fn,
                     void *arg, hr_status st, const char *const *words)
{
    if (!runs(e, n))
        return;
    hr_status got = run_on(e, n, o, fn, arg);
    if (got != st)
        print_error("%s: %s: %s\n", e->name, hr_status_name(got), hr_last_error());
    assert_int_equal(got, st);
    for (int i = 0; words[i]; i++) {
        if (!strstr(hr_last_error(), words[i]))
            print_error("no '%s' in: %s\n", words[i], hr_last_error());
        assert_non_null(strstr(hr_last_error(), words[i]));
    }
}

void fails(int n, const hr_local_opts *o, hr_rank_fn fn, void *arg, hr_status st,
           const char *const *words)
{
    for (int e = 0; e < n_engines; e++)
        fails_on(&engines[e], n, o, fn, arg, st, words);
}

void fails_unbuffered(int n, const hr_local_opts *o, hr_rank_fn fn, void *arg,
                      hr_status st, const char *const *words)
{
    for (int e = 0; e < n_engines; e++)
        if (!engines[e].buffers)
            fails_on(&engines[e], n, o, fn, arg, st, words);
}

hr_status expect(hr_status got, hr_status wanted, const char *word, int line)
{
    char said[256];
    if (got == wanted && (wanted == HR_OK || strstr(hr_last_error(), word)))
        return HR_OK;
    snprintf(said, sizeof said, "%s", got < 0 ? hr_last_error() : "");
    return hr_fail(HR_ERR_CALLBACK, "check", "line %d: expected %s '%s', got %s '%s'",
                   line, hr_status_name(wanted), word, hr_status_name(got), said);
}

uint32_t number(uint32_t seed, uint32_t i)
{
    uint32_t x = seed * 2654435761u + i * 2246822519u + 374761393u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    x *= 3266489917u;
    return x ^ x >> 16;
}
