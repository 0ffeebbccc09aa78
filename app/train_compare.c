/* train_compare.c: see train_compare.h. What has to be the same is a list of facts in text, name and value, each
 * ended by 0; rank 0's goes to all. */
#include "train_compare.h"
#include "host_name.h"
#include "option_text.h"
#include "safetensors_sum.h"
#include "share.h"
#include <stdlib.h>
#include <string.h>

/* ---- the list ------------------------------------------------------------------------------ */

/* The link is not imitated between processes. */
static bool may_differ(const char *option)
{
    static const char *const names[] = {"data", "config", "cores", "link-gbps",
                                        "link-us"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(option, names[i]) == 0)
            return true;
    return false;
}

static void put_options(FILE *to, const train_options *o)
{
    for (int i = 0; i < hr_app_train_table.n; i++) {
        const option_spec *s = &hr_app_train_table.spec[i];
        if (s->kind == OPTION_HEADING || may_differ(s->name))
            continue;
        fprintf(to, "--%s%c", s->name, 0);
        hr_app_option_put(s, o, to);
        fputc(0, to);
    }
}

static void put_sum(FILE *to, const void *bytes, size_t n)
{
    char text[ST_SUM_TEXT];
    hr_app_st_sum_text(hr_app_st_sum_bytes(0, bytes, n), text);
    fprintf(to, "%zu bytes, %s", n, text);
}

static hr_status put_schedule(FILE *to, const pipeline *p)
{
    char *text;
    APP_TRY(hr_schedule_print(p->training, &text));
    fprintf(to, "what --schedule orders%c", 0);
    put_sum(to, text, strlen(text));
    fputc(0, to);
    free(text);
    return HR_OK;
}

static void put_data(FILE *to, const data_set *d)
{
    static const char *const names[DATA_PARTS] = {"the training text of --data",
                                                  "the validation text of --data"};
    for (data_part part = DATA_TRAIN; part < DATA_PARTS; part++) {
        size_t n;
        const uint8_t *text = hr_app_data_text(d, part, &n);
        fprintf(to, "%s%c", names[part], 0);
        put_sum(to, text, n);
        fputc(0, to);
    }
}

static hr_status put_facts(FILE *to, const train_job *job)
{
    fprintf(to, "the version of headrace%c%s%c", 0, hr_version(), 0);
    put_options(to, job->opts);
    APP_TRY(put_schedule(to, job->pipeline));
    put_data(to, job->data);
    fprintf(to, "the step of the checkpoint in --out%c%lld%c", 0,
            (long long)job->first_step, 0);
    return HR_OK;
}

/* *out is the caller's, for free(). */
static hr_status list_facts(const train_job *job, char **out, size_t *bytes)
{
    *out = NULL;
    FILE *to = open_memstream(out, bytes);
    hr_status st = to ? put_facts(to, job) : HR_OK;
    bool whole = to && !ferror(to);
    if (to && fclose(to) != 0)
        whole = false;
    return st < 0  ? st
           : whole ? HR_OK
                   : hr_fail(HR_ERR_NOMEM, NULL, "no memory to list the options");
}

/* ---- against rank 0's ---------------------------------------------------------------------- */

/* The fact at `at`, which ends before `end`; one whose end is missing is empty. */
static const char *next(const char **at, const char *end)
{
    const char *text = *at, *stop = memchr(text, 0, (size_t)(end - text));
    *at = stop ? stop + 1 : end;
    return stop ? text : "";
}

static hr_status compare(const char *mine, size_t n, const char *first, size_t m)
{
    const char *const my_end = mine + n, *const end = first + m;
    while (mine < my_end || first < end) {
        const char *name = next(&mine, my_end), *has = next(&mine, my_end);
        const char *name0 = next(&first, end), *has0 = next(&first, end);
        if (strcmp(name, name0) != 0)
            return hr_fail(HR_ERR_MISMATCH, "configuration",
                           "%s is an option here, but %s on rank 0: not the same build",
                           name[0] ? name : "nothing", name0[0] ? name0 : "nothing");
        if (strcmp(has, has0) != 0)
            return hr_fail(HR_ERR_MISMATCH, "configuration",
                           "%s is '%.200s' here, but '%.200s' on rank 0", name, has,
                           has0);
    }
    return HR_OK;
}

hr_status hr_app_compare(hr_group *world, const train_job *job)
{
    char *mine;
    void *first = NULL;
    size_t n;
    int64_t m = 0;
    hr_status st = list_facts(job, &mine, &n);
    if (st >= 0)
        st = hr_app_share_all(world, "options", mine, (int64_t)n, &first, &m);
    if (st >= 0)
        st = compare(mine, n, first, (size_t)m);
    free(first);
    free(mine);
    return st;
}

/* ---- hosts --------------------------------------------------------------------------------- */

hr_status hr_app_count_hosts(hr_group *world, int *hosts)
{
    int n = hr_group_size(world);
    char mine[HOST_NAME];
    char(*all)[HOST_NAME] = calloc((size_t)n, sizeof *all);
    if (!all)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the names of %d hosts", n);
    hr_app_host_name(mine);
    hr_status st = hr_app_share_each(world, "hosts", mine, sizeof mine, all);
    *hosts = 0;
    for (int r = 0; r < n; r++) {
        int before = 0;
        while (before < r && memcmp(all[before], all[r], sizeof all[r]) != 0)
            before++;
        *hosts += before == r;
    }
    free(all);
    return st;
}
