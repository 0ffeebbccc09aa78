/* train_case.c: see train_case.h. */
#include "train_case.h"
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void train_case_options(train_options *o, int ep, int microbatches, int64_t steps)
{
    hr_app_options_train_defaults(o);
    o->model = (model_shape){.layers = 3,
                             .width = 32,
                             .heads = 2,
                             .experts = 4,
                             .top_k = 2,
                             .expert_width = 24,
                             .dense_layers = 1,
                             .dense_width = 48,
                             .shared_width = 16,
                             .seq = 16};
    o->ep = o->dp = ep;
    o->microbatches = microbatches;
    o->micro_batch_size = 1;
    o->global_batch_size = microbatches * ep;
    o->steps = steps;
    o->warmup = 1;
    o->eval_batches = 2;
    o->eval_every = 0;
    o->checkpoint_every = 0;
    o->link_gbps = o->link_us = 0;
    o->cores = 2;
    o->timeout_s = 60;
    snprintf(o->data, sizeof o->data, "LICENSE");
}

void train_case_folder(train_options *o)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(o->out, sizeof o->out, "%s/headrace-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(o->out))
        o->out[0] = '\0';
}

void train_case_init(train_options *o, int ep, int microbatches, int64_t steps)
{
    train_case_options(o, ep, microbatches, steps);
    train_case_folder(o);
}

static int remove_entry(const char *path, const struct stat *st, int kind,
                        struct FTW *at)
{
    return remove(path);
}

void train_case_fini(const train_options *o)
{
    if (o->out[0])
        nftw(o->out, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

char *train_case_read(const train_options *o, const char *name, size_t *n)
{
    char path[OPTION_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", o->out, name);
    FILE *f = fopen(path, "rb");
    *n = 0;
    if (!f)
        return NULL;
    char *text = NULL;
    if (fseek(f, 0, SEEK_END) == 0) {
        long bytes = ftell(f);
        rewind(f);
        text = calloc(1, (size_t)bytes + 1);
        if (text)
            *n = fread(text, 1, (size_t)bytes, f);
    }
    fclose(f);
    return text;
}

double train_case_distance(const float *a, const float *b, int64_t n)
{
    double d = 0, s = 0;
    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        s += (double)b[i] * b[i];
    }
    return d == 0 ? 0 : sqrt(d / s);
}
