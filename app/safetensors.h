/* Files in the safetensors format: 8 bytes of header length, a JSON header that names each tensor with
 * dtype, shape and place, and the bytes. Ours hold checksums in "__metadata__": one of the header,
 * which the reader looks at when it opens a file, and one of each tensor's bytes, at which it looks
 * when it reads them. It refuses whatever is not exactly as the header says: truncated, tampered,
 * overlapping, with holes. Knows nothing of models.
 */
#ifndef HR_APP_SAFETENSORS_H
#define HR_APP_SAFETENSORS_H
#include "headrace/base.h"

typedef enum st_dtype { ST_F32, ST_I64, ST_U8, ST_DTYPES } st_dtype;
enum {
    ST_MAX_DIMS = 8,
    ST_SUM_TEXT = 32 /* bytes of a checksum as text, with its end */
};

typedef struct st_tensor {
    const char *name;
    st_dtype dtype;
    int ndim;
    int64_t shape[ST_MAX_DIMS];
} st_tensor;

typedef struct st_meta {
    const char *key, *value;
} st_meta;

size_t hr_app_safetensors_item(st_dtype dtype); /* bytes of an element */
size_t
hr_app_safetensors_bytes(const st_tensor *t); /* of one that was written or read */
int64_t hr_app_safetensors_elements(const st_tensor *t); /* likewise */

/* What a file is, in short: of its header, and so of the checksums of all that is in it. */
typedef struct st_identity {
    int64_t bytes;
    char sum[ST_SUM_TEXT]; /* "": it has none */
} st_identity;

/* ---- writing: all tensors are named first, then their bytes come one after the other ------- */
typedef struct st_writer st_writer;

/* Replaces `path` whole or not at all (hr_file_begin), when it is committed. Names and texts are copied.
 * Errors: ERR_INVALID (same name twice, bad shape), ERR_IO, ERR_NOMEM. */
hr_status hr_app_safetensors_begin(const char *path, const st_tensor *tensors, int n,
                                   const st_meta *meta, int n_meta, st_writer **out);
/* All bytes of the next tensor, packed row by row. What a write meets is said by commit. */
void hr_app_safetensors_put(st_writer *w, const void *data);
/* Consumes `w`, on failure too. The file is on the disk when it returns. */
hr_status hr_app_safetensors_commit(st_writer *w);
void hr_app_safetensors_discard(st_writer *w); /* NULL is fine */

/* ---- reading ------------------------------------------------------------------------------- */
typedef struct safetensors safetensors;

/* Reads and verifies the header of `path`. Errors: ERR_IO; ERR_PARSE with file, offset and reason. */
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
st_identity hr_app_safetensors_identity(const safetensors *f);

/* Copies `bytes` of a tensor of `f`, from its byte `first` on, to `dst`, and verifies all of it on the
 * way. From any thread. Errors: ERR_IO; ERR_PARSE if its checksum is another. */
hr_status hr_app_safetensors_read(const safetensors *f, const st_tensor *t,
                                  size_t first, size_t bytes, void *dst);
/* ERR_MISMATCH, saying both, unless `t` of `f` has this dtype and shape. */
hr_status hr_app_safetensors_check(const safetensors *f, const st_tensor *t,
                                   const st_tensor *want);

#endif
