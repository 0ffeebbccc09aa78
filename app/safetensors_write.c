/* Writes a safetensors file: header first, so sizes and checksum are gathered beforehand. */
#include "app_try.h"
#include "safetensors_sum.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static hr_status no_memory(const char *path)
{
    return hr_fail(HR_ERR_NOMEM, NULL, "no memory to write '%s'", path);
}

static hr_status check(const char *path, const st_tensor *t, const json_t *header,
                       size_t *bytes)
{
    if (!t->name || strcmp(t->name, ST_METADATA) == 0 ||
        json_object_get(header, t->name))
        return hr_fail(HR_ERR_INVALID, "st_name",
                       "cannot write '%s': tensor name '%s' is taken", path,
                       t->name ? t->name : "(none)");
    if (!hr_app_st_bytes(t, bytes) || (*bytes && !t->data))
        return hr_fail(HR_ERR_INVALID, "st_shape",
                       "cannot write '%s': tensor '%s' has no valid shape or no data",
                       path, t->name);
    return HR_OK;
}

static hr_status add_tensor(const char *path, const st_tensor *t, json_t *header,
                            size_t *at, uint64_t *sum)
{
    size_t bytes = 0;
    APP_TRY(check(path, t, header, &bytes));
    json_t *shape = json_array();
    int bad = 0;
    for (int i = 0; i < t->ndim; i++)
        bad |= json_array_append_new(shape, json_integer(t->shape[i]));
    json_int_t begin = (json_int_t)*at, end = begin + (json_int_t)bytes;
    json_t *entry =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", hr_app_st_dtype_names[t->dtype],
                  "shape", shape, "data_offsets", begin, end);
    if (bad || json_object_set_new(header, t->name, entry) != 0)
        return hr_fail(HR_ERR_INVALID, "st_name",
                       "cannot write '%s': tensor name '%s' is not UTF-8, or no memory",
                       path, t->name);
    *sum += hr_app_st_sum_tensor(t, *at, bytes);
    *at += bytes;
    return HR_OK;
}

static hr_status add_meta(const char *path, const st_meta *meta, int n, uint64_t sum,
                          json_t *metadata)
{
    char text[ST_SUM_TEXT];
    for (int i = 0; i < n; i++) {
        if (json_object_set_new(metadata, meta[i].key, json_string(meta[i].value)) != 0)
            return hr_fail(
                HR_ERR_INVALID, "st_meta",
                "cannot write '%s': metadata '%s' is not UTF-8, or no memory", path,
                meta[i].key);
        sum += hr_app_st_sum_meta(meta[i].key, meta[i].value);
    }
    hr_app_st_sum_text(sum, text);
    if (json_object_set_new(metadata, ST_CHECKSUM, json_string(text)) != 0)
        return no_memory(path);
    return HR_OK;
}

/* The header as text, filled with blanks to a multiple of 8. *out is the caller's. */
static hr_status make_header(const char *path, const st_tensor *t, int n,
                             const st_meta *meta, int n_meta, char **out)
{
    json_t *header = json_object();
    json_t *metadata = json_object();
    hr_status st = HR_OK;
    size_t at = 0;
    uint64_t sum = 0;
    *out = NULL;
    if (json_object_set_new(header, ST_METADATA, metadata) != 0)
        APP_TRY_GOTO(st, no_memory(path), done);
    for (int i = 0; i < n; i++)
        APP_TRY_GOTO(st, add_tensor(path, &t[i], header, &at, &sum), done);
    APP_TRY_GOTO(st, add_meta(path, meta, n_meta, sum, metadata), done);
    char *text = json_dumps(header, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0, padded = (len + 7) / 8 * 8;
    *out = text ? malloc(padded + 1) : NULL;
    if (*out) {
        memcpy(*out, text, len);
        memset(*out + len, ' ', padded - len);
        (*out)[padded] = '\0';
    } else {
        st = no_memory(path);
    }
    free(text);
done:
    json_decref(header);
    return st;
}

static void put_header(const char *header, FILE *to)
{
    uint64_t n = strlen(header);
    uint8_t length[8]; /* little-endian */
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(n >> (8 * i));
    fwrite(length, 1, sizeof length, to);
    fwrite(header, 1, n, to);
}

hr_status hr_app_safetensors_write(const char *path, const st_tensor *tensors, int n,
                                   const st_meta *meta, int n_meta)
{
    char *header = NULL;
    hr_file *file = NULL;
    APP_TRY(make_header(path, tensors, n, meta, n_meta, &header));
    hr_status st = hr_file_begin(path, &file);
    if (st == HR_OK) {
        FILE *to = hr_file_stream(file);
        put_header(header, to);
        for (int i = 0; i < n; i++) {
            size_t bytes = 0;
            if (hr_app_st_bytes(&tensors[i], &bytes) && bytes > 0)
                fwrite(tensors[i].data, 1, bytes, to);
        }
        st = hr_file_commit(file); /* says what a write met */
    }
    free(header);
    return st;
}
