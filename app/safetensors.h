/* Files in the safetensors format: 8 bytes of header length, a JSON header that names each tensor with
 * dtype, shape and place, and the bytes. Ours hold a checksum of the data in "__metadata__", and the
 * reader refuses whatever is not exactly as the header says: truncated, tampered, overlapping, with
 * holes. Knows nothing of models.
 */
#ifndef HR_APP_SAFETENSORS_H
#define HR_APP_SAFETENSORS_H
#include "headrace/base.h"

typedef enum st_dtype { ST_F32, ST_I64, ST_U8, ST_DTYPES } st_dtype;
enum { ST_MAX_DIMS = 8 };

typedef struct st_tensor {
    const char *name;
    st_dtype dtype;
    int ndim;
    int64_t shape[ST_MAX_DIMS];
    const void *data; /* packed, row by row; may be NULL where there is no element */
} st_tensor;

typedef struct st_meta {
    const char *key, *value;
} st_meta;

/* Replaces `path` whole or not at all (hr_file_begin). Tensors are laid out in the order given.
 * Errors: ERR_INVALID (same name twice, bad shape), ERR_IO, ERR_NOMEM. */
hr_status hr_app_safetensors_write(const char *path, const st_tensor *tensors, int n,
                                   const st_meta *meta, int n_meta);

typedef struct safetensors safetensors;

/* Reads and verifies all of `path`. Errors: ERR_IO; ERR_PARSE with file, offset and reason. */
hr_status hr_app_safetensors_open(const char *path, safetensors **out);
/* The same of `n` bytes in memory, which are copied; `name` stands for the path in messages. */
hr_status hr_app_safetensors_parse(const char *name, const void *bytes, size_t n,
                                   safetensors **out);
void hr_app_safetensors_close(safetensors *f); /* NULL is fine */

int hr_app_safetensors_count(const safetensors *f);
const st_tensor *hr_app_safetensors_at(const safetensors *f, int i); /* in file order */
const st_tensor *hr_app_safetensors_find(const safetensors *f, const char *name);
const char *hr_app_safetensors_meta(const safetensors *f,
                                    const char *key); /* or NULL */

/* Copies tensor `name` to `dst`, if it has this dtype and shape. ERR_MISMATCH says both. */
hr_status hr_app_safetensors_get(const safetensors *f, const char *name, st_dtype dtype,
                                 int ndim, const int64_t *shape, void *dst);

size_t hr_app_safetensors_item(st_dtype dtype); /* bytes of an element */

#endif
