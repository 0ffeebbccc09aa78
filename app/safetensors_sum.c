/* The checksum is FNV-1a over each entry: 64 bits against accidents and edits, not against an attacker. */
#include "safetensors_sum.h"

#include <string.h>

const char *const hr_app_st_dtype_names[ST_DTYPES] = {"F32", "I64", "U8"};

size_t hr_app_safetensors_item(st_dtype dtype)
{
    static const size_t bytes[ST_DTYPES] = {4, 8, 1};
    return bytes[dtype];
}

bool hr_app_st_bytes(const st_tensor *t, size_t *bytes)
{
    size_t all = hr_app_safetensors_item(t->dtype);
    *bytes = 0;
    if (t->ndim < 0 || t->ndim > ST_MAX_DIMS)
        return false;
    bool none = false;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return false;
        none = none || t->shape[i] == 0;
        if (!none && __builtin_mul_overflow(all, (size_t)t->shape[i], &all))
            return false;
    }
    *bytes = none ? 0 : all;
    return *bytes <= (size_t)PTRDIFF_MAX;
}

static uint64_t fnv(uint64_t h, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint64_t fnv_text(uint64_t h, const char *text)
{
    return fnv(h, text, strlen(text) + 1); /* with its end: "ab","c" is not "a","bc" */
}

static const uint64_t fnv_start = 0xcbf29ce484222325u;

uint64_t hr_app_st_sum_meta(const char *key, const char *value)
{
    return fnv_text(fnv_text(fnv_start, key), value);
}

uint64_t hr_app_st_sum_tensor(const st_tensor *t, size_t begin, size_t bytes)
{
    uint64_t h =
        fnv_text(fnv_text(fnv_start, t->name), hr_app_st_dtype_names[t->dtype]);
    uint64_t place = begin;
    h = fnv(h, t->shape, sizeof t->shape[0] * (size_t)t->ndim);
    h = fnv(h, &place, sizeof place);
    return bytes ? fnv(h, t->data, bytes) : h;
}

void hr_app_st_sum_text(uint64_t sum, char text[ST_SUM_TEXT])
{
    snprintf(text, ST_SUM_TEXT, "fnv1a64:%016llx", (unsigned long long)sum);
}
