/* Any bytes as a checkpoint: refused with a sentence, or every tensor in it can be read. */
#include "safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

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
        size_t size = hr_app_safetensors_bytes(t);
        unsigned char *copy = malloc(size + 1);
        if (copy && hr_app_safetensors_read(file, t, 0, size, copy) < 0 &&
            hr_last_error()[0] == '\0')
            abort();
        free(copy);
        if (hr_app_safetensors_find(file, t->name) != t)
            abort();
    }
    hr_app_safetensors_close(file);
    return 0;
}
