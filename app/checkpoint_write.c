/* checkpoint_write.c: the files of a checkpoint and their index; see checkpoint.h. */
#include "app_try.h"
#include "checkpoint.h"
#include "checkpoint_index.h"
#include "checkpoint_meta.h"

#include <stdlib.h>
#include <string.h>

void hr_app_checkpoint_name_part(const char *folder, int number, int of,
                                 char path[CHECKPOINT_PATH])
{
    snprintf(path, CHECKPOINT_PATH, "%.*s/model-%05d-of-%05d.safetensors",
             CHECKPOINT_PATH - 64, folder, number, of);
}

/* ---- a part -------------------------------------------------------------------------------- */
static hr_status put_all(const checkpoint_part *part, st_writer *w)
{
    size_t most = 1;
    for (int i = 0; i < part->n; i++) {
        size_t bytes = hr_app_safetensors_bytes(&part->tensors[i]);
        most = bytes > most ? bytes : most;
    }
    void *host = malloc(most);
    hr_status st = host ? HR_OK
                        : hr_fail(HR_ERR_NOMEM, NULL,
                                  "no memory to write %zu bytes of a checkpoint", most);
    for (int i = 0; i < part->n && st >= 0; i++) {
        st = part->fetch(part->ctx, i, host);
        if (st >= 0)
            hr_app_safetensors_put(w, host);
    }
    free(host);
    return st;
}

hr_status hr_app_checkpoint_write_part(const char *temp, const checkpoint_info *info,
                                       const checkpoint_part *part)
{
    checkpoint_texts meta;
    char path[CHECKPOINT_PATH];
    st_writer *w;
    hr_app_meta_of_part(info, part->number, part->of, &meta);
    hr_app_checkpoint_name_part(temp, part->number, part->of, path);
    APP_TRY(
        hr_app_safetensors_begin(path, part->tensors, part->n, meta.list, meta.n, &w));
    hr_status st = put_all(part, w);
    if (st >= 0)
        return hr_app_safetensors_commit(w);
    hr_app_safetensors_discard(w);
    return st;
}

/* ---- the index ----------------------------------------------------------------------------- */
typedef struct sealing {
    const checkpoint_draft *draft;
    const checkpoint_info *info;
    const char *(*whose)(void *ctx, int number);
    void *ctx;
    int parts;
    char (*path)[CHECKPOINT_PATH];
    const char **name; /* in path */
    safetensors **file;
} sealing;

static hr_status open_part(const sealing *s, int i)
{
    hr_app_checkpoint_name_part(s->draft->temp, i + 1, s->parts, s->path[i]);
    s->name[i] = strrchr(s->path[i], '/') + 1;
    hr_status st = hr_app_safetensors_open(s->path[i], &s->file[i]);
    if (st < 0 && s->whose)
        return hr_fail(st, hr_last_reason(),
                       "what %s has written cannot be seen here: %s (is --out one "
                       "folder for all hosts?)",
                       s->whose(s->ctx, i + 1), hr_last_error());
    return st;
}

static hr_status write_text(const char *folder, const char *text)
{
    char path[CHECKPOINT_PATH];
    hr_file *f;
    snprintf(path, sizeof path, "%.*s/" INDEX_NAME, CHECKPOINT_PATH - 64, folder);
    APP_TRY(hr_file_begin(path, &f));
    fputs(text, hr_file_stream(f));
    fputc('\n', hr_file_stream(f));
    return hr_file_commit(f);
}

static hr_status write_index(const sealing *s)
{
    checkpoint_texts meta;
    checkpoint_index *again = NULL;
    char *text = NULL;
    for (int i = 0; i < s->parts; i++)
        APP_TRY(open_part(s, i));
    hr_app_meta_of_index(s->info, &meta);
    APP_TRY(hr_app_index_format(meta.list, meta.n, s->name, s->file, s->parts, &text));
    /* What the ranks have written together is to be a whole: found out now, not when it is wanted. */
    hr_status st = hr_app_index_parse(s->draft->path, text, strlen(text), &again);
    if (st >= 0)
        st = write_text(s->draft->temp, text);
    hr_app_index_free(again);
    free(text);
    return st;
}

static hr_status seal(sealing *s)
{
    size_t n = (size_t)s->parts + 1;
    s->path = calloc(n, sizeof *s->path);
    s->name = calloc(n, sizeof *s->name);
    s->file = calloc(n, sizeof(safetensors *));
    hr_status st =
        s->path && s->name && s->file
            ? write_index(s)
            : hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d files", s->parts);
    for (int i = 0; s->file && i < s->parts; i++)
        hr_app_safetensors_close(s->file[i]);
    free(s->path);
    free(s->name);
    free(s->file);
    return st;
}

hr_status hr_app_checkpoint_seal(checkpoint_draft *d, const checkpoint_info *info,
                                 int keep, int parts,
                                 const char *(*whose)(void *ctx, int number), void *ctx)
{
    sealing s = {.draft = d, .info = info, .whose = whose, .ctx = ctx, .parts = parts};
    hr_status st = seal(&s);
    if (st >= 0)
        return hr_app_draft_commit(d, keep);
    hr_app_draft_discard(d);
    return st;
}
