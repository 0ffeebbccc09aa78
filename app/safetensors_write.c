/* Writes a safetensors file. The header comes first and holds the checksums of what follows: it is written with
 * zeros in their places, and again when they are known. */
#include "app_try.h"
#include "safetensors_sum.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { PER_SUM = ST_SUM_DIGITS + 1 }; /* and a blank, or the end */

struct st_writer {
    hr_file *file;
    char *path;
    json_t *header;
    json_t *metadata; /* in it */
    size_t *bytes;    /* of each tensor */
    char *sums;       /* of those put so far, as text */
    int n, next;
    uint64_t header_sum; /* of all entries but the two checksums */
};

static hr_status no_memory(const char *path)
{
    return hr_fail(HR_ERR_NOMEM, NULL, "no memory to write '%s'", path);
}

static void writer_free(st_writer *w)
{
    json_decref(w->header);
    free(w->path);
    free(w->bytes);
    free(w->sums);
    free(w);
}

/* ---- the header ---------------------------------------------------------------------------- */
static hr_status check(const st_writer *w, const st_tensor *t, size_t *bytes)
{
    if (!t->name || strcmp(t->name, ST_METADATA) == 0 ||
        json_object_get(w->header, t->name))
        return hr_fail(HR_ERR_INVALID, "st_name",
                       "cannot write '%s': tensor name '%s' is taken", w->path,
                       t->name ? t->name : "(none)");
    if (!hr_app_st_bytes(t, bytes))
        return hr_fail(HR_ERR_INVALID, "st_shape",
                       "cannot write '%s': tensor '%s' has no valid shape", w->path,
                       t->name);
    return HR_OK;
}

static hr_status add_tensor(st_writer *w, const st_tensor *t, size_t *at)
{
    size_t bytes = 0;
    APP_TRY(check(w, t, &bytes));
    json_t *shape = json_array();
    int bad = 0;
    for (int i = 0; i < t->ndim; i++)
        bad |= json_array_append_new(shape, json_integer(t->shape[i]));
    json_int_t begin = (json_int_t)*at, end = begin + (json_int_t)bytes;
    json_t *entry =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", hr_app_st_dtype_names[t->dtype],
                  "shape", shape, "data_offsets", begin, end);
    if (bad || json_object_set_new(w->header, t->name, entry) != 0)
        return hr_fail(HR_ERR_INVALID, "st_name",
                       "cannot write '%s': tensor name '%s' is not UTF-8, or no memory",
                       w->path, t->name);
    w->header_sum += hr_app_st_sum_entry(t, *at);
    w->bytes[w->n++] = bytes;
    *at += bytes;
    return HR_OK;
}

static hr_status add_meta(st_writer *w, const st_meta *meta, int n)
{
    for (int i = 0; i < n; i++) {
        if (json_object_set_new(w->metadata, meta[i].key, json_string(meta[i].value)) !=
            0)
            return hr_fail(
                HR_ERR_INVALID, "st_meta",
                "cannot write '%s': metadata '%s' is not UTF-8, or no memory", w->path,
                meta[i].key);
        w->header_sum += hr_app_st_sum_meta(meta[i].key, meta[i].value);
    }
    return HR_OK;
}

/* Checksums as they are so far, each as long as it will be. */
static hr_status set_sums(st_writer *w)
{
    char text[ST_SUM_TEXT];
    hr_app_st_sum_text(w->header_sum + hr_app_st_sum_meta(ST_DATA_SUMS, w->sums), text);
    if (json_object_set_new(w->metadata, ST_DATA_SUMS, json_string(w->sums)) != 0 ||
        json_object_set_new(w->metadata, ST_HEADER_SUM, json_string(text)) != 0)
        return no_memory(w->path);
    return HR_OK;
}

/* Length, and the header filled with blanks to a multiple of 8. */
static hr_status put_header(const st_writer *w)
{
    char *text = json_dumps(w->header, JSON_COMPACT);
    if (!text)
        return no_memory(w->path);
    FILE *to = hr_file_stream(w->file);
    uint64_t n = strlen(text), padded = (n + 7) / 8 * 8;
    uint8_t length[8]; /* little-endian */
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(padded >> (8 * i));
    fwrite(length, 1, sizeof length, to);
    fwrite(text, 1, n, to);
    fwrite("        ", 1, padded - n, to);
    free(text);
    return HR_OK;
}

static hr_status make_header(st_writer *w, const st_tensor *tensors, int n,
                             const st_meta *meta, int n_meta)
{
    size_t at = 0;
    if (json_object_set(w->header, ST_METADATA, w->metadata) != 0)
        return no_memory(w->path);
    for (int i = 0; i < n; i++)
        APP_TRY(add_tensor(w, &tensors[i], &at));
    APP_TRY(add_meta(w, meta, n_meta));
    for (int i = 0; i < n; i++)
        memcpy(w->sums + (size_t)i * PER_SUM, "0000000000000000 ", PER_SUM);
    w->sums[n > 0 ? n * PER_SUM - 1 : 0] = '\0';
    return set_sums(w);
}

/* ---- the file ------------------------------------------------------------------------------ */
hr_status hr_app_safetensors_begin(const char *path, const st_tensor *tensors, int n,
                                   const st_meta *meta, int n_meta, st_writer **out)
{
    hr_status st = HR_ERR_NOMEM;
    st_writer *w = calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return no_memory(path);
    w->path = strdup(path);
    w->header = json_object();
    w->metadata = json_object();
    w->bytes = calloc((size_t)n + 1, sizeof *w->bytes);
    w->sums = malloc((size_t)n * PER_SUM + 1);
    if (!w->path || !w->bytes || !w->sums) {
        json_decref(w->metadata);
        APP_TRY_GOTO(st, no_memory(path), fail);
    }
    st = make_header(w, tensors, n, meta, n_meta);
    json_decref(w->metadata); /* the header has it */
    if (st < 0)
        goto fail;
    APP_TRY_GOTO(st, hr_file_begin(path, &w->file), fail);
    *out = w;
    st = put_header(w);
    if (st == HR_OK)
        return st;
    hr_file_discard(w->file);
    *out = NULL;
fail:
    writer_free(w);
    return st;
}

void hr_app_safetensors_put(st_writer *w, const void *data)
{
    FILE *to = hr_file_stream(w->file);
    if (w->next >= w->n || ferror(to))
        return;
    size_t bytes = w->bytes[w->next];
    uint64_t sum = 0;
    if (bytes > 0) {
        sum = hr_app_st_sum_bytes(0, data, bytes);
        fwrite(data, 1, bytes, to);
    }
    char text[PER_SUM];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)sum);
    memcpy(w->sums + (size_t)w->next * PER_SUM, text, ST_SUM_DIGITS);
    w->next++;
}

hr_status hr_app_safetensors_commit(st_writer *w)
{
    FILE *to = hr_file_stream(w->file);
    hr_status st = HR_OK;
    if (!ferror(to) && w->next < w->n)
        st = hr_fail(HR_ERR_STATE, "st_bytes",
                     "cannot write '%s': bytes of %d of its %d tensors are missing",
                     w->path, w->n - w->next, w->n);
    if (st == HR_OK)
        st = set_sums(w);
    if (st == HR_OK && !ferror(to) && fseek(to, 0, SEEK_SET) == 0)
        st = put_header(w);
    else if (st == HR_OK && !ferror(to))
        st = hr_fail(HR_ERR_IO, "file", "cannot write '%s': no way back to its begin",
                     w->path);
    if (st == HR_OK)
        st = hr_file_commit(w->file); /* says what a write met */
    else
        hr_file_discard(w->file);
    writer_free(w);
    return st;
}

void hr_app_safetensors_discard(st_writer *w)
{
    if (!w)
        return;
    hr_file_discard(w->file);
    writer_free(w);
}
