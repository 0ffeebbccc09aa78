/* Reads a safetensors file and believes nothing: every length is checked against the file, every entry
 * against its neighbours, the header against its checksum, and each tensor against its own when it is read. */
#include "app_try.h"
#include "safetensors_sum.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LENGTH_BYTES = 8, /* of the header, little-endian, at the file's begin */
    PORTION = 1 << 20 /* of a tensor, read at once; whole words */
};

struct slot {
    st_tensor t; /* first: a tensor's address is its slot's */
    size_t begin, bytes;
    uint64_t sum;
};

struct safetensors {
    char *name, *bytes;
    size_t have;       /* bytes in memory: the header, or all */
    size_t n;          /* bytes of the file */
    size_t data;       /* where data begins */
    json_t *root;      /* the header; owns the names */
    struct slot *slot; /* in order of place */
    int count;
    st_identity identity;
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

static hr_status no_memory(const char *name)
{
    return hr_fail(HR_ERR_NOMEM, NULL, "no memory to read '%s'", name);
}

/* ---- the header ---------------------------------------------------------------------------- */

/* Where the header ends, by the first bytes of a file of `n`. */
static hr_status header_end(const char *name, const char *bytes, size_t n, size_t *end)
{
    uint64_t length = 0;
    if (n < LENGTH_BYTES)
        return hr_fail(HR_ERR_PARSE, "safetensors",
                       "'%s', byte %zu: the file ends before its header: truncated",
                       name, n);
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)(uint8_t)bytes[i] << (8 * i);
    if (length > n - LENGTH_BYTES)
        return hr_fail(HR_ERR_PARSE, "safetensors",
                       "'%s', byte 0: the header is said to have %llu bytes, but %zu "
                       "follow: truncated, or no safetensors file",
                       name, (unsigned long long)length, n - LENGTH_BYTES);
    *end = LENGTH_BYTES + (size_t)length;
    return HR_OK;
}

static hr_status read_header(safetensors *f)
{
    APP_TRY(header_end(f->name, f->bytes, f->n, &f->data));
    if (f->data == LENGTH_BYTES || f->bytes[LENGTH_BYTES] != '{')
        return malformed(f, LENGTH_BYTES, "no JSON object: no safetensors file");
    json_error_t error;
    f->root = json_loadb(f->bytes + LENGTH_BYTES, f->data - LENGTH_BYTES,
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
                             const json_t *entry, struct slot *s)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    s->t.name = name;
    if (!json_is_object(entry) || json_object_size(entry) != 3 ||
        json_array_size(offsets) != 2)
        return malformed_tensor(f, name, "wants dtype, shape and data_offsets alone");
    if (!read_dtype(json_object_get(entry, "dtype"), &s->t))
        return malformed_tensor(f, name, "dtype is none of F32, I64, U8");
    if (!read_shape(json_object_get(entry, "shape"), &s->t) ||
        !hr_app_st_bytes(&s->t, &s->bytes))
        return malformed_tensor(f, name, "shape is not valid");
    const json_t *first = json_array_get(offsets, 0),
                 *last = json_array_get(offsets, 1);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (!json_is_integer(first) || !json_is_integer(last) || begin < 0 || end < begin)
        return malformed_tensor(f, name, "data_offsets are not valid");
    if ((uint64_t)end > f->n - f->data)
        return hr_fail(
            HR_ERR_PARSE, "safetensors",
            "'%s', byte %zu: the file ends within tensor '%.100s', which goes "
            "to byte %llu: truncated",
            f->name, f->n, name, (unsigned long long)f->data + (uint64_t)end);
    if ((uint64_t)(end - begin) != s->bytes)
        return malformed_tensor(f, name, "shape and data_offsets disagree");
    s->begin = (size_t)begin;
    return HR_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    return x->begin != y->begin   ? (x->begin < y->begin ? -1 : 1)
           : x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1)
                                  : 0;
}

static hr_status read_tensors(safetensors *f)
{
    const char *key;
    json_t *entry;
    f->slot = calloc(json_object_size(f->root) + 1, sizeof *f->slot);
    if (!f->slot)
        return no_memory(f->name);
    json_object_foreach(f->root, key, entry)
    {
        if (strcmp(key, ST_METADATA) == 0)
            continue;
        APP_TRY(read_tensor(f, key, entry, &f->slot[f->count]));
        f->count++;
    }
    if (f->count > 1)
        qsort(f->slot, (size_t)f->count, sizeof *f->slot, by_place);
    return HR_OK;
}

/* Tensors must follow each other without hole or overlap, to the end of the file. */
static hr_status check_places(const safetensors *f, uint64_t *sum)
{
    size_t at = 0;
    for (int i = 0; i < f->count; i++) {
        const struct slot *s = &f->slot[i];
        if (s->begin != at)
            return hr_fail(HR_ERR_PARSE, "safetensors",
                           "'%s', byte %zu: %s tensor '%.100s'", f->name,
                           f->data + (s->begin < at ? s->begin : at),
                           s->begin < at ? "overlap before the end of what precedes"
                                         : "hole before",
                           s->t.name);
        *sum += hr_app_st_sum_entry(&s->t, s->begin);
        at += s->bytes;
    }
    return f->data + at == f->n
               ? HR_OK
               : malformed(f, f->data + at, "bytes that belong to no tensor follow");
}

static hr_status check_sum(safetensors *f, uint64_t sum)
{
    const char *key;
    json_t *value, *metadata = json_object_get(f->root, ST_METADATA);
    if (metadata && !json_is_object(metadata))
        return malformed(f, LENGTH_BYTES, ST_METADATA " is not an object");
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return malformed(f, LENGTH_BYTES, ST_METADATA " holds what is not a text");
        if (strcmp(key, ST_HEADER_SUM) != 0)
            sum += hr_app_st_sum_meta(key, json_string_value(value));
    }
    const char *stored = hr_app_safetensors_meta(f, ST_HEADER_SUM);
    char found[ST_SUM_TEXT];
    hr_app_st_sum_text(sum, found);
    if (stored && strcmp(stored, found) != 0)
        return hr_fail(HR_ERR_PARSE, "safetensors",
                       "'%s', byte %d: the header has checksum %s, but %.40s was "
                       "written: damaged or changed",
                       f->name, LENGTH_BYTES, found, stored);
    f->identity.bytes = (int64_t)f->n;
    snprintf(f->identity.sum, sizeof f->identity.sum, "%s", stored ? stored : "");
    return HR_OK;
}

/* The checksums of what is in it, where there are any: as many as tensors. */
static hr_status read_sums(safetensors *f)
{
    const char *text = hr_app_safetensors_meta(f, ST_DATA_SUMS);
    if (!text)
        return HR_OK;
    for (int i = 0; i < f->count; i++) {
        char *end = NULL;
        f->slot[i].sum = strtoull(text, &end, 16);
        if (end != text + ST_SUM_DIGITS || (*end && *end != ' '))
            return malformed(f, LENGTH_BYTES, ST_DATA_SUMS " is no list of checksums");
        text = *end ? end + 1 : end;
    }
    return *text ? malformed(f, LENGTH_BYTES,
                             ST_DATA_SUMS " has more checksums than there are tensors")
                 : HR_OK;
}

/* Takes `bytes`, of which there are `have` of the file's `n`. */
static hr_status take(const char *name, char *bytes, size_t have, size_t n,
                      safetensors **out)
{
    hr_status st = HR_ERR_NOMEM;
    uint64_t sum = 0;
    safetensors *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f || !(f->name = strdup(name))) {
        free(f);
        free(bytes);
        return no_memory(name);
    }
    f->bytes = bytes;
    f->have = have;
    f->n = n;
    APP_TRY_GOTO(st, read_header(f), fail);
    APP_TRY_GOTO(st, read_tensors(f), fail);
    APP_TRY_GOTO(st, check_places(f, &sum), fail);
    APP_TRY_GOTO(st, check_sum(f, sum), fail);
    APP_TRY_GOTO(st, read_sums(f), fail);
    *out = f;
    return HR_OK;
fail:
    hr_app_safetensors_close(f);
    return st;
}

/* ---- files --------------------------------------------------------------------------------- */
static hr_status io_error(const char *path, int cause)
{
    return hr_fail(HR_ERR_IO, "file", "cannot read '%s': %s", path,
                   strerrordesc_np(cause));
}

static hr_status open_file(const char *path, int *fd, size_t *n)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* a pipe may block */
        return hr_fail(HR_ERR_IO, "file", "cannot read '%s': it is not a regular file",
                       path);
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return io_error(path, errno);
    if (fstat(*fd, &info) == 0) {
        *n = (size_t)info.st_size;
        return HR_OK;
    }
    int cause = errno;
    close(*fd);
    return io_error(path, cause);
}

static hr_status read_at(const char *path, int fd, size_t at, char *to, size_t n)
{
    while (n > 0) {
        ssize_t got = pread(fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return io_error(path, errno);
        if (got == 0)
            return hr_fail(HR_ERR_PARSE, "safetensors",
                           "'%s', byte %zu: the file has become shorter: truncated",
                           path, at);
        at += (size_t)got;
        to += got;
        n -= (size_t)got;
    }
    return HR_OK;
}

/* The bytes up to the end of the header; *bytes is the caller's. */
static hr_status read_begin(const char *path, int fd, size_t n, char **bytes,
                            size_t *have)
{
    char length[LENGTH_BYTES] = {0};
    *bytes = NULL;
    *have = 0;
    APP_TRY(read_at(path, fd, 0, length, n < LENGTH_BYTES ? n : LENGTH_BYTES));
    APP_TRY(header_end(path, length, n, have));
    *bytes = malloc(*have + 1);
    return *bytes ? read_at(path, fd, 0, *bytes, *have) : no_memory(path);
}

hr_status hr_app_safetensors_open(const char *path, safetensors **out)
{
    int fd;
    size_t n, have;
    char *bytes;
    *out = NULL;
    APP_TRY(open_file(path, &fd, &n));
    hr_status st = read_begin(path, fd, n, &bytes, &have);
    close(fd);
    if (st >= 0)
        return take(path, bytes, have, n, out);
    free(bytes);
    return st;
}

hr_status hr_app_safetensors_parse(const char *name, const void *bytes, size_t n,
                                   safetensors **out)
{
    *out = NULL;
    char *copy = malloc(n + 1);
    if (!copy)
        return no_memory(name);
    memcpy(copy, bytes, n);
    return take(name, copy, n, n, out);
}

void hr_app_safetensors_close(safetensors *f)
{
    if (!f)
        return;
    json_decref(f->root);
    free(f->slot);
    free(f->bytes);
    free(f->name);
    free(f);
}

/* ---- what is in it ------------------------------------------------------------------------- */
int hr_app_safetensors_count(const safetensors *f)
{
    return f->count;
}

const st_tensor *hr_app_safetensors_at(const safetensors *f, int i)
{
    return i >= 0 && i < f->count ? &f->slot[i].t : NULL;
}

const st_tensor *hr_app_safetensors_find(const safetensors *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->slot[i].t.name, name) == 0)
            return &f->slot[i].t;
    return NULL;
}

const char *hr_app_safetensors_meta(const safetensors *f, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(f->root, ST_METADATA), key));
}

st_identity hr_app_safetensors_identity(const safetensors *f)
{
    return f->identity;
}

/* ---- data ---------------------------------------------------------------------------------- */

/* Part of what is wanted of a slot: its bytes from..to. */
typedef struct wanted {
    size_t from, to;
    char *dst;
} wanted;

static void hand_over(const wanted *w, size_t at, const char *bytes, size_t n)
{
    size_t from = at > w->from ? at : w->from;
    size_t to = at + n < w->to ? at + n : w->to;
    if (from < to)
        memcpy(w->dst + (from - w->from), bytes + (from - at), to - from);
}

/* All of it goes by, portion by portion. `fd` -1: from memory. */
static hr_status pass(const safetensors *f, const struct slot *s, int fd, char *room,
                      const wanted *w, uint64_t *sum)
{
    for (size_t at = 0, n; at < s->bytes; at += n) {
        n = s->bytes - at < PORTION ? s->bytes - at : PORTION;
        size_t place = f->data + s->begin + at;
        const char *bytes = f->bytes + place;
        if (fd >= 0) {
            APP_TRY(read_at(f->name, fd, place, room, n));
            bytes = room;
        }
        *sum = hr_app_st_sum_bytes(*sum, bytes, n);
        hand_over(w, at, bytes, n);
    }
    return HR_OK;
}

static hr_status pass_file(const safetensors *f, const struct slot *s, const wanted *w,
                           uint64_t *sum)
{
    int fd;
    size_t n;
    char *room = malloc(PORTION);
    hr_status st = room ? open_file(f->name, &fd, &n) : no_memory(f->name);
    if (st >= 0) {
        st = pass(f, s, fd, room, w, sum);
        close(fd);
    }
    free(room);
    return st;
}

hr_status hr_app_safetensors_read(const safetensors *f, const st_tensor *t,
                                  size_t first, size_t bytes, void *dst)
{
    const struct slot *s = (const struct slot *)t;
    wanted w = {.from = first, .to = first + bytes, .dst = dst};
    uint64_t sum = 0;
    if (first > s->bytes || bytes > s->bytes - first)
        return hr_fail(HR_ERR_INVALID, "st_range",
                       "bytes %zu to %zu of tensor '%.100s' of '%s', which has %zu",
                       first, first + bytes, t->name, f->name, s->bytes);
    if (s->bytes == 0)
        return HR_OK;
    APP_TRY(f->have == f->n ? pass(f, s, -1, NULL, &w, &sum)
                            : pass_file(f, s, &w, &sum));
    if (sum != s->sum && hr_app_safetensors_meta(f, ST_DATA_SUMS))
        return hr_fail(HR_ERR_PARSE, "safetensors",
                       "'%s', byte %zu: the bytes of tensor '%.100s' have checksum "
                       "%016llx, but %016llx was written: damaged or changed",
                       f->name, f->data + s->begin, t->name, (unsigned long long)sum,
                       (unsigned long long)s->sum);
    return HR_OK;
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

hr_status hr_app_safetensors_check(const safetensors *f, const st_tensor *t,
                                   const st_tensor *want)
{
    char has[256], wants[256];
    if (t->dtype == want->dtype && t->ndim == want->ndim &&
        memcmp(t->shape, want->shape, sizeof t->shape[0] * (size_t)t->ndim) == 0)
        return HR_OK;
    return hr_fail(HR_ERR_MISMATCH, "st_shape",
                   "tensor '%s' of '%s' is %s, but %s is wanted", t->name, f->name,
                   describe(t, has, sizeof has), describe(want, wants, sizeof wants));
}
