/* Any bytes as a checkpoint: refused with a sentence, or every tensor in it can be read. */
#include "safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static volatile unsigned char seen;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    safetensors *file;
    hr_error_clear();
    if (hr_app_safetensors_parse("fuzz", bytes, n, &file) < 0) {
        if (hr_last_error()[0] == '\0' || file)
            abort();
        return 0;
    }
    for (int i = 0; i < hr_app_safetensors_count(file); i++) {
        const st_tensor *t = hr_app_safetensors_at(file, i);
        size_t size = hr_app_safetensors_item(t->dtype);
        for (int d = 0; d < t->ndim; d++)
            size *= (size_t)t->shape[d];
        for (size_t k = 0; k < size; k++)
            seen = ((const unsigned char *)t->data)[k];
        if (hr_app_safetensors_find(file, t->name) != t)
            abort();
    }
    hr_app_safetensors_close(file);
    return 0;
}
