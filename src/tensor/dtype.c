/* The element types. */
#include "tensor/tensor_impl.h"

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [HR_F32] = {"f32", 4}, [HR_BF16] = {"bf16", 2}, [HR_F16] = {"f16", 2},
    [HR_I32] = {"i32", 4}, [HR_I64] = {"i64", 8},   [HR_U8] = {"u8", 1},
};

static bool known(hr_dtype t)
{
    return (unsigned)t < sizeof types / sizeof types[0];
}

size_t hr_dtype_bytes(hr_dtype t)
{
    return known(t) ? types[t].bytes : 0;
}

const char *hr_dtype_name(hr_dtype t)
{
    return known(t) ? types[t].name : "?";
}

bool hr__dtype_is_real(hr_dtype t)
{
    return t == HR_F32 || t == HR_BF16 || t == HR_F16;
}
