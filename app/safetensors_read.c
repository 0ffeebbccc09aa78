/* Reads a safetensors file and believes nothing: every length is checked against the file, every entry
 * against its neighbours, and the whole against the checksum. */
#include "app_try.h"
#include "safetensors_sum.h"
#include "whole_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LENGTH_BYTES = 8 }; /* of the header, little-endian, at the file's begin */

struct safetensors {
    char *name, *bytes;
    size_t n;          /* bytes */
    size_t data;       /* where data begins */
    json_t *root;      /* the header; owns the names */
    st_tensor *tensor; /* in order of place */
    int count;
};

static hr_status malformed(const safetensors *f, size_t at, const char *why)
{
    return hr_fail(HR_ERR_PARSE, "safetensors", "'%s', byte %zu: %s", f->name, at, why);
}

static hr_status malformed_tensor(const safetensors *f, const char *tensor,
                                  const char *why)
{
    return hr_fail(HR_ERR_PARSE, "safetensors", "'%s', byte %d: tensor '%.100s': %s",
                   f->name, LENGTH_BYTES, tensor, why);
}

static hr_status no_memory(const safetensors *f)
{
    return hr_fail(HR_ERR_NOMEM, NULL, "no memory to read '%s'", f->name);
}

static hr_status read_header(safetensors *f)
{
    uint64_t length = 0;
    if (f->n < LENGTH_BYTES)
        return malformed(f, f->n, "the file ends before its header: truncated");
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)(uint8_t)f->bytes[i] << (8 * i);
    if (length > f->n - LENGTH_BYTES)
        return hr_fail(HR_ERR_PARSE, "safetensors",
                       "'%s', byte 0: the header is said to have %llu bytes, but %zu "
                       "follow: truncated, or no safetensors file",
                       f->name, (unsigned long long)length, f->n - LENGTH_BYTES);
    f->data = LENGTH_BYTES + (size_t)length;
    if (length == 0 || f->bytes[LENGTH_BYTES] != '{')
        return malformed(f, LENGTH_BYTES, "no JSON object: no safetensors file");
    json_error_t error;
    f->root = json_loadb(f->bytes + LENGTH_BYTES, (size_t)length,
                         JSON_REJECT_DUPLICATES, &error);
    if (!f->root)
        return hr_fail(HR_ERR_PARSE, "safetensors",
                       "'%s', byte %d: header is not JSON: %s", f->name,
                       LENGTH_BYTES + error.position, error.text);
    return HR_OK;
}

static bool read_shape(const json_t *shape, st_tensor *t)
{
    size_t dims = json_array_size(shape);
    if (!json_is_array(shape) || dims > ST_MAX_DIMS)
        return false;
    t->ndim = (int)dims;
    for (size_t i = 0; i < dims; i++) {
        const json_t *v = json_array_get(shape, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return false;
        t->shape[i] = json_integer_value(v);
    }
    return true;
}

static bool read_dtype(const json_t *dtype, st_tensor *t)
{
    for (int i = 0; json_is_string(dtype) && i < ST_DTYPES; i++)
        if (strcmp(json_string_value(dtype), hr_app_st_dtype_names[i]) == 0) {
            t->dtype = (st_dtype)i;
            return true;
        }
    return false;
}

/* One entry of the header. Its end is implied: begin and shape, which must agree with it. */
static hr_status read_tensor(const safetensors *f, const char *name,
                             const json_t *entry, st_tensor *t)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    t->name = name;
    if (!json_is_object(entry) || json_object_size(entry) != 3 ||
        json_array_size(offsets) != 2)
        return malformed_tensor(f, name, "wants dtype, shape and data_offsets alone");
    if (!read_dtype(json_object_get(entry, "dtype"), t))
        return malformed_tensor(f, name, "dtype is none of F32, I64, U8");
    size_t bytes = 0, room = f->n - f->data;
    if (!read_shape(json_object_get(entry, "shape"), t) || !hr_app_st_bytes(t, &bytes))
        return malformed_tensor(f, name, "shape is not valid");
    const json_t *first = json_array_get(offsets, 0),
                 *last = json_array_get(offsets, 1);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (!json_is_integer(first) || !json_is_integer(last) || begin < 0 || end < begin)
        return malformed_tensor(f, name, "data_offsets are not valid");
    if ((uint64_t)end > room)
        return hr_fail(
            HR_ERR_PARSE, "safetensors",
            "'%s', byte %zu: the file ends within tensor '%.100s', which goes "
            "to byte %llu: truncated",
            f->name, f->n, name, (unsigned long long)f->data + (uint64_t)end);
    if ((uint64_t)(end - begin) != bytes)
        return malformed_tensor(f, name, "shape and data_offsets disagree");
    t->data = f->bytes + f->data + begin;
    return HR_OK;
}

static int by_place(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    const char *p = x->data, *q = y->data;
    size_t m = 0, n = 0;
    if (p != q)
        return p < q ? -1 : 1;
    return hr_app_st_bytes(x, &m) && hr_app_st_bytes(y, &n) && m != n ? (m < n ? -1 : 1)
                                                                      : 0;
}

static hr_status read_tensors(safetensors *f)
{
    const char *key;
    json_t *entry;
    f->tensor = calloc(json_object_size(f->root) + 1, sizeof *f->tensor);
    if (!f->tensor)
        return no_memory(f);
    json_object_foreach(f->root, key, entry)
    {
        if (strcmp(key, ST_METADATA) == 0)
            continue;
        APP_TRY(read_tensor(f, key, entry, &f->tensor[f->count]));
        f->count++;
    }
    if (f->count > 1)
        qsort(f->tensor, (size_t)f->count, sizeof *f->tensor, by_place);
    return HR_OK;
}

/* Tensors must follow each other without hole or overlap, to the end of the file. */
static hr_status check_places(const safetensors *f, uint64_t *sum)
{
    size_t at = f->data;
    for (int i = 0; i < f->count; i++) {
        const st_tensor *t = &f->tensor[i];
        size_t begin = (size_t)((const char *)t->data - f->bytes), bytes = 0;
        if (begin != at)
            return hr_fail(
                HR_ERR_PARSE, "safetensors", "'%s', byte %zu: %s tensor '%.100s'",
                f->name, begin < at ? begin : at,
                begin < at ? "overlap before the end of what precedes" : "hole before",
                t->name);
        if (hr_app_st_bytes(t, &bytes))
            *sum += hr_app_st_sum_tensor(t, begin - f->data, bytes);
        at = begin + bytes;
    }
    return at == f->n ? HR_OK
                      : malformed(f, at, "bytes that belong to no tensor follow");
}

static hr_status check_sum(const safetensors *f, uint64_t sum)
{
    const char *key;
    json_t *value, *metadata = json_object_get(f->root, ST_METADATA);
    if (metadata && !json_is_object(metadata))
        return malformed(f, LENGTH_BYTES, ST_METADATA " is not an object");
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return malformed(f, LENGTH_BYTES, ST_METADATA " holds what is not a text");
        if (strcmp(key, ST_CHECKSUM) != 0)
            sum += hr_app_st_sum_meta(key, json_string_value(value));
    }
    const char *stored = hr_app_safetensors_meta(f, ST_CHECKSUM);
    char found[ST_SUM_TEXT];
    hr_app_st_sum_text(sum, found);
    if (stored && strcmp(stored, found) != 0)
        return hr_fail(HR_ERR_PARSE, "safetensors",
                       "'%s', byte %zu: the contents have checksum %s, but %.40s was "
                       "written: damaged or changed",
                       f->name, f->data, found, stored);
    return HR_OK;
}

/* Takes `bytes`. */
static hr_status take(const char *name, char *bytes, size_t n, safetensors **out)
{
    hr_status st = HR_ERR_NOMEM;
    uint64_t sum = 0;
    safetensors *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f || !(f->name = strdup(name))) {
        free(f);
        free(bytes);
        return hr_fail(st, NULL, "no memory to read '%s'", name);
    }
    f->bytes = bytes;
    f->n = n;
    APP_TRY_GOTO(st, read_header(f), fail);
    APP_TRY_GOTO(st, read_tensors(f), fail);
    APP_TRY_GOTO(st, check_places(f, &sum), fail);
    APP_TRY_GOTO(st, check_sum(f, sum), fail);
    *out = f;
    return HR_OK;
fail:
    hr_app_safetensors_close(f);
    return st;
}

hr_status hr_app_safetensors_open(const char *path, safetensors **out)
{
    char *bytes = NULL;
    size_t n = 0;
    struct stat info;
    *out = NULL;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* a device may have no end */
        return hr_fail(HR_ERR_IO, "file", "cannot read '%s': it is not a regular file",
                       path);
    APP_TRY(hr_app_read_file(path, PTRDIFF_MAX, &bytes, &n));
    return take(path, bytes, n, out);
}

hr_status hr_app_safetensors_parse(const char *name, const void *bytes, size_t n,
                                   safetensors **out)
{
    *out = NULL;
    char *copy = malloc(n + 1);
    if (!copy)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to read '%s'", name);
    memcpy(copy, bytes, n);
    return take(name, copy, n, out);
}

void hr_app_safetensors_close(safetensors *f)
{
    if (!f)
        return;
    json_decref(f->root);
    free(f->tensor);
    free(f->bytes);
    free(f->name);
    free(f);
}

int hr_app_safetensors_count(const safetensors *f)
{
    return f->count;
}

const st_tensor *hr_app_safetensors_at(const safetensors *f, int i)
{
    return i >= 0 && i < f->count ? &f->tensor[i] : NULL;
}

const st_tensor *hr_app_safetensors_find(const safetensors *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->tensor[i].name, name) == 0)
            return &f->tensor[i];
    return NULL;
}

const char *hr_app_safetensors_meta(const safetensors *f, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(f->root, ST_METADATA), key));
}

/* "F32 [4, 128]" */
static const char *describe(const st_tensor *t, char *out, size_t room)
{
    size_t at = (size_t)snprintf(out, room, "%s [", hr_app_st_dtype_names[t->dtype]);
    for (int i = 0; i < t->ndim && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%lld", i ? ", " : "",
                               (long long)t->shape[i]);
    if (at < room)
        snprintf(out + at, room - at, "]");
    return out;
}

hr_status hr_app_safetensors_get(const safetensors *f, const char *name, st_dtype dtype,
                                 int ndim, const int64_t *shape, void *dst)
{
    const st_tensor *t = hr_app_safetensors_find(f, name);
    st_tensor want = {.name = name, .dtype = dtype, .ndim = ndim};
    size_t bytes = 0;
    if (!t)
        return hr_fail(HR_ERR_MISMATCH, "st_missing", "'%s' has no tensor '%s'",
                       f->name, name);
    if (ndim < 0 || ndim > ST_MAX_DIMS)
        return hr_fail(HR_ERR_INVALID, "st_shape",
                       "tensor '%s' asked with %d dimensions", name, ndim);
    memcpy(want.shape, shape, sizeof shape[0] * (size_t)ndim);
    if (t->dtype != dtype || t->ndim != ndim ||
        memcmp(t->shape, want.shape, sizeof shape[0] * (size_t)ndim) != 0) {
        char has[256], wants[256];
        return hr_fail(HR_ERR_MISMATCH, "st_shape",
                       "tensor '%s' of '%s' is %s, but %s is wanted", name, f->name,
                       describe(t, has, sizeof has),
                       describe(&want, wants, sizeof wants));
    }
    if (hr_app_st_bytes(t, &bytes) && bytes > 0)
        memcpy(dst, t->data, bytes);
    return HR_OK;
}
