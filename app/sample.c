/* sample.c: `headrace sample`: text from a checkpoint, a byte at a time, on one rank. */
#include "app_try.h"
#include "checkpoint.h"
#include "commands.h"
#include "counter.h"
#include "interrupt.h"
#include "model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sampler {
    const sample_options *opts;
    checkpoint *from;
    checkpoint_info info;
    unsigned char *text; /* prompt and what follows */
    size_t n, cap;
} sampler;

static hr_status load(hr_app_model *m, checkpoint *from)
{
    hr_app_params *p = &m->params;
    for (int i = 0; i < p->n; i++) {
        hr_app_param *q = &p->list[i];
        size_t bytes = hr_tensor_bytes(q->w);
        void *host = malloc(bytes);
        if (!host)
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory for '%s'", q->name);
        hr_status st = hr_app_checkpoint_read(from, q->name, q->ndim, q->shape, 0,
                                              hr_app_param_count(q), host);
        if (st >= 0)
            st = hr_tensor_write(q->w, host, bytes);
        free(host);
        APP_TRY(st);
    }
    return HR_OK;
}

/* Logits of the byte that follows the last `seq` bytes. */
static hr_status next_logits(hr_app_model *m, const sampler *s, float logits[APP_VOCAB])
{
    int64_t seq = s->info.model.seq, n = (int64_t)s->n < seq ? (int64_t)s->n : seq;
    int32_t *ids = calloc((size_t)n, sizeof *ids);
    if (!ids)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %lld bytes", (long long)n);
    for (int64_t i = 0; i < n; i++)
        ids[i] = s->text[(int64_t)s->n - n + i];
    m->shape.seq = (int)n; /* attention takes whole sequences */
    hr_tensor *t = NULL, *all = NULL, *last = NULL;
    hr_status st = hr_tensor_create(HR_I32, 1, &n, &t);
    if (st >= 0)
        st = hr_tensor_write(t, ids, (size_t)n * sizeof *ids);
    if (st >= 0)
        st = hr_app_model_plain(m, t, &all);
    if (st >= 0)
        st = hr_tensor_rows(all, n - 1, n, &last);
    if (st >= 0)
        st = hr_tensor_read(last, logits, APP_VOCAB * sizeof *logits);
    hr_tensor_release(last);
    hr_tensor_release(all);
    hr_tensor_release(t);
    free(ids);
    return st;
}

static int likeliest(const float *logits)
{
    int best = 0;
    for (int i = 1; i < APP_VOCAB; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The k-th largest: what is below it has no chance. */
static float threshold(const float *logits, int k)
{
    float sorted[APP_VOCAB];
    memcpy(sorted, logits, sizeof sorted);
    qsort(sorted, APP_VOCAB, sizeof *sorted, descending);
    return sorted[k - 1];
}

static int draw(const float *logits, const sample_options *o, int64_t at)
{
    if (o->temperature <= 0)
        return likeliest(logits);
    double p[APP_VOCAB], sum = 0, top = logits[likeliest(logits)];
    float least =
        o->top_k > 0 && o->top_k < APP_VOCAB ? threshold(logits, o->top_k) : -INFINITY;
    for (int i = 0; i < APP_VOCAB; i++)
        sum += p[i] = logits[i] < least ? 0 : exp((logits[i] - top) / o->temperature);
    double left = sum * hr_app_uniform((uint64_t)o->seed, (uint64_t)at);
    int i = 0;
    while (i < APP_VOCAB - 1 && (left -= p[i]) > 0)
        i++;
    return i;
}

/* No model has more parameters than its checkpoint has room for, whatever that says of its shape. */
static int64_t numbers_in(const checkpoint *from)
{
    return hr_app_checkpoint_bytes(from) / (int64_t)sizeof(float) +
           1; /* 0 is no limit */
}

static hr_status sample_rank(hr_group *world, void *sampler_)
{
    sampler *s = sampler_;
    hr_app_model *m;
    s->info.model.mtp = 0; /* for training alone */
    hr_app_model_opts opts = {HR_INIT(hr_app_model_opts), .shape = &s->info.model,
                              .most = numbers_in(s->from)};
    APP_TRY(hr_app_model_create(&opts, &m));
    bool was = hr_grad_mode_set(false);
    hr_status st = load(m, s->from);
    while (st >= 0 && s->n < s->cap) {
        float logits[APP_VOCAB];
        st = hr_app_interrupted()
                 ? hr_fail(HR_ERR_ABORTED, "interrupted", "interrupted")
                 : next_logits(m, s, logits);
        if (st >= 0) {
            s->text[s->n] = (unsigned char)draw(logits, s->opts, (int64_t)s->n);
            s->n++;
        }
    }
    hr_grad_mode_set(was);
    hr_app_model_destroy(m);
    return st;
}

static hr_status put(const sampler *s)
{
    const char *path = s->opts->out;
    if (!path[0]) {
        fwrite(s->text, 1, s->n, stdout);
        return putchar('\n') == '\n' && fflush(stdout) == 0
                   ? HR_OK
                   : hr_fail(HR_ERR_IO, NULL, "cannot write to standard output");
    }
    hr_file *f;
    APP_TRY(hr_file_begin(path, &f));
    fwrite(s->text, 1, s->n, hr_file_stream(f));
    fputc('\n', hr_file_stream(f));
    return hr_file_commit(f);
}

hr_status hr_app_sample(const sample_options *o)
{
    sampler s = {.opts = o};
    APP_TRY(hr_app_checkpoint_open(o->checkpoint, &s.info, &s.from));
    s.n = strlen(o->prompt);
    s.cap = s.n + (size_t)o->length;
    s.text = malloc(s.cap + 1);
    hr_status st =
        s.text ? HR_OK : hr_fail(HR_ERR_NOMEM, NULL, "no memory for the text");
    if (st >= 0 && s.n == 0)
        s.text[s.n++] = '\n'; /* something to follow */
    if (st >= 0) {
        memcpy(s.text, o->prompt, strlen(o->prompt));
        st = hr_local_run(1, NULL, sample_rank, &s);
    }
    if (st >= 0)
        st = put(&s);
    free(s.text);
    hr_app_checkpoint_close(s.from);
    return st;
}
