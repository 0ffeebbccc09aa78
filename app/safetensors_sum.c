/* The checksum takes a word at a time, for a checkpoint is to be written as fast as the disk: 64 bits against
 * accidents and edits, not against an attacker. Any change within one word changes it, and the shift
 * carries high bits down, without which changes of two signs would undo each other. */
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

size_t hr_app_safetensors_bytes(const st_tensor *t)
{
    size_t bytes = 0;
    return hr_app_st_bytes(t, &bytes) ? bytes : 0;
}

int64_t hr_app_safetensors_elements(const st_tensor *t)
{
    return (int64_t)(hr_app_safetensors_bytes(t) / hr_app_safetensors_item(t->dtype));
}

static uint64_t step(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}

uint64_t hr_app_st_sum_bytes(uint64_t h, const void *bytes, size_t n)
{
    const char *p = bytes;
    uint64_t word;
    for (; n >= sizeof word; n -= sizeof word, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        h = step(h, word);
    }
    if (n > 0) {
        word = (uint64_t)n << 56; /* a shorter end is another one */
        memcpy(&word, p, n);
        h = step(h, word);
    }
    return h;
}

static uint64_t sum_text(uint64_t h, const char *text)
{
    size_t n = strlen(text);
    return step(hr_app_st_sum_bytes(h, text, n), n); /* "ab","c" is not "a","bc" */
}

uint64_t hr_app_st_sum_meta(const char *key, const char *value)
{
    return sum_text(sum_text(1, key), value);
}

uint64_t hr_app_st_sum_entry(const st_tensor *t, size_t begin)
{
    uint64_t h = sum_text(sum_text(2, t->name), hr_app_st_dtype_names[t->dtype]);
    h = hr_app_st_sum_bytes(h, t->shape, sizeof t->shape[0] * (size_t)t->ndim);
    return step(h, begin);
}

void hr_app_st_sum_text(uint64_t sum, char text[ST_SUM_TEXT])
{
    snprintf(text, ST_SUM_TEXT, "mix64:%016llx", (unsigned long long)sum);
}
