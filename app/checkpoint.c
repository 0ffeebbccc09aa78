/* checkpoint.c: opens a checkpoint, and reads from it what a rank wants; see checkpoint.h. Files are
 * opened when they are first wanted: of a thousand a rank needs few. */
#include "checkpoint.h"
#include "app_try.h"
#include "checkpoint_index.h"
#include "checkpoint_meta.h"
#include "whole_text.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct checkpoint {
    checkpoint_index *index;
    char folder[CHECKPOINT_PATH];
    checkpoint_info info;
    pthread_mutex_t mu; /* guards file */
    safetensors **file; /* [index->n_files]; NULL: not opened yet */
};

/* ---- which one ----------------------------------------------------------------------------- */

/* The folder of the last step in `path`, to `folder`; false: there is none, or it cannot be read. */
static bool last_step_in(const char *path, char folder[CHECKPOINT_PATH])
{
    int64_t step;
    if (hr_app_steps_last(path, &step) < 0 || step < 0)
        return false;
    snprintf(folder, CHECKPOINT_PATH, "%.*s/step-%08lld", OPTION_PATH + 16, path,
             (long long)step);
    return true;
}

static bool has_index(const char *folder)
{
    char path[CHECKPOINT_PATH + 64];
    snprintf(path, sizeof path, "%s/" INDEX_NAME, folder);
    return access(path, F_OK) == 0;
}

/* The folder of the checkpoint that `path` means: itself, the last in it, or in the folder `checkpoint`
 * in it. */
static hr_status find_folder(const char *path, char folder[CHECKPOINT_PATH])
{
    char inner[CHECKPOINT_PATH];
    struct stat info;
    if (stat(path, &info) != 0)
        return hr_fail(HR_ERR_IO, "file", "cannot read '%s': %s", path,
                       strerrordesc_np(errno));
    snprintf(folder, CHECKPOINT_PATH, "%.*s", OPTION_PATH + 16, path);
    snprintf(inner, sizeof inner, "%.*s/checkpoint", OPTION_PATH, path);
    if (has_index(path) || last_step_in(path, folder) || last_step_in(inner, folder))
        return HR_OK;
    return hr_fail(HR_ERR_IO, "file",
                   "no checkpoint in '%s': neither " INDEX_NAME
                   " nor a folder step-* is "
                   "in it or in '%s'",
                   path, inner);
}

/* The index, and the folder it is in. */
static hr_status find_index(const char *path, char folder[CHECKPOINT_PATH],
                            char index[CHECKPOINT_PATH + 64])
{
    struct stat info;
    bool file = stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
    if (!file) {
        APP_TRY(find_folder(path, folder));
        snprintf(index, CHECKPOINT_PATH + 64, "%s/" INDEX_NAME, folder);
        return HR_OK;
    }
    if (!S_ISREG(info.st_mode)) /* a pipe may have no end */
        return hr_fail(HR_ERR_IO, "file", "cannot read '%s': it is not a regular file",
                       path);
    const char *slash = strrchr(path, '/');
    snprintf(index, CHECKPOINT_PATH + 64, "%s", path);
    snprintf(folder, CHECKPOINT_PATH, "%.*s", slash ? (int)(slash - path) : 1,
             slash ? path : ".");
    return HR_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */
static hr_status read_index(const char *path, checkpoint *c)
{
    char where[CHECKPOINT_PATH + 64], *text;
    size_t n;
    APP_TRY(find_index(path, c->folder, where));
    APP_TRY(hr_app_read_file(where, PTRDIFF_MAX, &text, &n));
    hr_status st = hr_app_index_parse(where, text, n, &c->index);
    free(text);
    APP_TRY(st);
    APP_TRY(hr_app_meta_read(c->index, &c->info));
    c->file = calloc((size_t)c->index->n_files + 1, sizeof(safetensors *));
    return c->file ? HR_OK
                   : hr_fail(HR_ERR_NOMEM, NULL, "no memory to read '%s'", where);
}

hr_status hr_app_checkpoint_open(const char *path, checkpoint_info *info,
                                 checkpoint **out)
{
    checkpoint *c = calloc(1, sizeof *c);
    *info = (checkpoint_info){0};
    *out = NULL;
    if (!c)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to read '%s'", path);
    pthread_mutex_init(&c->mu, NULL);
    hr_status st = read_index(path, c);
    if (st < 0) {
        hr_app_checkpoint_close(c);
        return st;
    }
    *info = c->info;
    *out = c;
    return HR_OK;
}

void hr_app_checkpoint_close(checkpoint *c)
{
    if (!c)
        return;
    for (int i = 0; c->file && i < c->index->n_files; i++)
        hr_app_safetensors_close(c->file[i]);
    free(c->file);
    hr_app_index_free(c->index);
    pthread_mutex_destroy(&c->mu);
    free(c);
}

const char *hr_app_checkpoint_meta(const checkpoint *c, const char *key)
{
    return hr_app_index_meta(c->index, key);
}

int64_t hr_app_checkpoint_bytes(const checkpoint *c)
{
    int64_t sum = 0;
    for (int i = 0; i < c->index->n_files; i++)
        if (__builtin_add_overflow(sum, c->index->files[i].identity.bytes, &sum))
            return INT64_MAX;
    return sum;
}

hr_status hr_app_checkpoint_resume(const train_options *o, checkpoint_info *info,
                                   checkpoint **out)
{
    APP_TRY(hr_app_checkpoint_open(o->out, info, out));
    hr_status st = hr_app_checkpoint_check(o->out, &info->model, &o->model);
    if (st == HR_OK && info->step >= o->steps)
        st = hr_fail(HR_ERR_INVALID, "steps",
                     "--resume: '%s' has done %lld steps already; --steps is %lld",
                     o->out, (long long)info->step, (long long)o->steps);
    if (st == HR_OK && info->seed != o->seed)
        st = hr_fail(HR_ERR_MISMATCH, "seed",
                     "--resume: '%s' has --seed %lld, but this run %lld: it would see "
                     "other data",
                     o->out, (long long)info->seed, (long long)o->seed);
    if (st < 0) {
        hr_app_checkpoint_close(*out);
        *out = NULL;
    }
    return st;
}

/* ---- its files ----------------------------------------------------------------------------- */

/* Is it the one that the index was written for? */
static hr_status check_file(const checkpoint *c, const index_file *want,
                            const char *path, const safetensors *f)
{
    const char *step = hr_app_safetensors_meta(f, "step");
    st_identity has = hr_app_safetensors_identity(f);
    const char *wants = hr_app_index_meta(c->index, "step");
    if (step && wants && strcmp(step, wants) != 0)
        return hr_fail(
            HR_ERR_PARSE, "checkpoint_file",
            "'%s' is of a checkpoint of step %.20s, and its index of step %.20s", path,
            step, wants);
    if (has.bytes != want->identity.bytes || strcmp(has.sum, want->identity.sum) != 0)
        return hr_fail(
            HR_ERR_PARSE, "checkpoint_file",
            "'%s' is not the file that the index beside it lists: it has %lld "
            "bytes and checksum %s, not %lld and %s",
            path, (long long)has.bytes, has.sum[0] ? has.sum : "none",
            (long long)want->identity.bytes, want->identity.sum);
    return HR_OK;
}

static hr_status open_file_locked(checkpoint *c, int i)
{
    char path[CHECKPOINT_PATH + 300];
    const index_file *want = &c->index->files[i];
    snprintf(path, sizeof path, "%s/%s", c->folder, want->name);
    APP_TRY(hr_app_safetensors_open(path, &c->file[i]));
    hr_status st = check_file(c, want, path, c->file[i]);
    if (st < 0) {
        hr_app_safetensors_close(c->file[i]);
        c->file[i] = NULL;
    }
    return st;
}

static hr_status file_at(checkpoint *c, int i, const safetensors **out)
{
    pthread_mutex_lock(&c->mu);
    hr_status st = c->file[i] ? HR_OK : open_file_locked(c, i);
    *out = c->file[i];
    pthread_mutex_unlock(&c->mu);
    return st;
}

/* ---- its tensors --------------------------------------------------------------------------- */

/* A piece is rows of the whole, or flat. */
static hr_status check_piece(const checkpoint *c, const index_piece *p,
                             const safetensors *f, const st_tensor *t,
                             const st_tensor *whole)
{
    const char *file = c->index->files[p->file].name;
    if (!t)
        return hr_fail(HR_ERR_PARSE, "checkpoint_file",
                       "'%s/%s' has no '%.100s', of which the index says that it has",
                       c->folder, file, p->key);
    st_tensor want = *whole;
    if (p->last != INDEX_WHOLE) {
        int64_t row = 1, count = p->last - p->first;
        for (int d = 1; d < whole->ndim; d++)
            row *= whole->shape[d];
        want.ndim = t->ndim == 1 ? 1 : whole->ndim;
        want.shape[0] = want.ndim == 1 ? count : row ? count / row : 0;
    }
    APP_TRY(hr_app_safetensors_check(f, t, &want));
    if (p->last != INDEX_WHOLE && hr_app_safetensors_elements(t) != p->last - p->first)
        return hr_fail(HR_ERR_PARSE, "checkpoint_file",
                       "'%s/%s': '%.100s' has %lld elements", c->folder, file, p->key,
                       (long long)hr_app_safetensors_elements(t));
    return HR_OK;
}

/* What of elements first .. last - 1 is in the piece. */
static hr_status read_piece(checkpoint *c, const index_piece *p, const st_tensor *whole,
                            int64_t first, int64_t last, float *dst)
{
    int64_t end = p->last == INDEX_WHOLE ? hr_app_safetensors_elements(whole) : p->last;
    int64_t from = first > p->first ? first : p->first, to = last < end ? last : end;
    const safetensors *f;
    if (from >= to)
        return HR_OK;
    APP_TRY(file_at(c, p->file, &f));
    const st_tensor *t = hr_app_safetensors_find(f, p->key);
    APP_TRY(check_piece(c, p, f, t, whole));
    return hr_app_safetensors_read(f, t, (size_t)(from - p->first) * sizeof *dst,
                                   (size_t)(to - from) * sizeof *dst,
                                   dst + (from - first));
}

/* The index shows that nothing is missing between pieces; how long the whole is it does not know. */
static hr_status check_end(const checkpoint *c, const index_piece *last,
                           const st_tensor *whole)
{
    int64_t n = hr_app_safetensors_elements(whole);
    if (last->last == INDEX_WHOLE || last->last == n)
        return HR_OK;
    if (last->last < n)
        return hr_fail(HR_ERR_PARSE, "checkpoint_gap",
                       "'%s': elements %lld to %lld of tensor '%s' are in no file",
                       c->index->path, (long long)last->last, (long long)n - 1,
                       whole->name);
    return hr_fail(HR_ERR_MISMATCH, "st_shape",
                   "'%s': tensor '%s' has %lld elements, but %lld are wanted",
                   c->index->path, whole->name, (long long)last->last, (long long)n);
}

hr_status hr_app_checkpoint_read(checkpoint *c, const char *name, int ndim,
                                 const int64_t *shape, int64_t first, int64_t count,
                                 float *dst)
{
    st_tensor whole = {.name = name, .dtype = ST_F32, .ndim = ndim};
    int n;
    const index_piece *p = hr_app_index_find(c->index, name, &n);
    if (!p)
        return hr_fail(HR_ERR_MISMATCH, "st_missing", "'%s' has no tensor '%s'",
                       c->index->path, name);
    memcpy(whole.shape, shape, sizeof shape[0] * (size_t)ndim);
    APP_TRY(check_end(c, p + n - 1, &whole));
    for (int i = 0; i < n; i++)
        APP_TRY(read_piece(c, &p[i], &whole, first, first + count, dst));
    return HR_OK;
}
