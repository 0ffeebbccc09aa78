/* A checkpoint is a folder, `checkpoint/step-00000100` in the one that --out names: files in the
 * safetensors format, one of each rank that wrote something, and their index,
 * model.safetensors.index.json. Together they hold each element of the parameters and of the
 * optimiser's state once, and in the metadata of the index the shape of the model, the step, the seed
 * and a schedule that was searched for. It appears whole, and is read by any number of ranks in any
 * layout, each of which takes what it holds.
 */
#ifndef HR_APP_CHECKPOINT_H
#define HR_APP_CHECKPOINT_H
#include "checkpoint_folder.h"
#include "options.h"
#include "safetensors.h"

typedef struct checkpoint_info {
    model_shape model;
    int64_t step;    /* steps done */
    int64_t updates; /* of the parameters: steps that were not skipped */
    int64_t seed;
    const char *schedule; /* to write: what --schedule auto chose; NULL: none */
} checkpoint_info;

/* Its key in the metadata. */
#define CHECKPOINT_SCHEDULE "schedule"

/* ---- reading ------------------------------------------------------------------------------- */
typedef struct checkpoint checkpoint;

/* `path`: the folder of a step, or that of several, of which the last counts, or what --out named, or
 * an index. Reads the index alone. *out is the caller's. Errors: ERR_IO; ERR_PARSE where the index or
 * its metadata is not that of a checkpoint. */
hr_status hr_app_checkpoint_open(const char *path, checkpoint_info *info,
                                 checkpoint **out);
void hr_app_checkpoint_close(checkpoint *c); /* NULL is fine */
const char *hr_app_checkpoint_meta(const checkpoint *c, const char *key); /* or NULL */
int64_t hr_app_checkpoint_bytes(const checkpoint *c); /* of all its files */

/* Elements first .. first + count - 1 of f32 tensor `name`, which has this shape, to `dst`: from
 * whatever files they are in. From any thread. Errors: ERR_IO; ERR_PARSE: a file is damaged, cut, or
 * another than the index says; ERR_MISMATCH: no such tensor, another shape. */
hr_status hr_app_checkpoint_read(checkpoint *c, const char *name, int ndim,
                                 const int64_t *shape, int64_t first, int64_t count,
                                 float *dst);

/* ERR_MISMATCH, naming option and both values, if `have` (of `path`) cannot go on as `want`. */
hr_status hr_app_checkpoint_check(const char *path, const model_shape *have,
                                  const model_shape *want);

/* What --resume goes on from: opens and checks the checkpoint in --out. ERR_INVALID if it has done all
 * --steps. *out as above. */
hr_status hr_app_checkpoint_resume(const train_options *o, checkpoint_info *info,
                                   checkpoint **out);

/* ---- writing, in three parts --------------------------------------------------------------- */
/* One rank begins a draft (checkpoint_folder.h); each rank that has something to write does so, as
 * number i of n; and when all have, the first one seals it. */
typedef struct checkpoint_part {
    int number, of;           /* 1 .. of */
    const st_tensor *tensors; /* F32; pieces as in checkpoint_index.h */
    int n;
    /* All of tensor i to `host`. One after the other, each once. */
    hr_status (*fetch)(void *ctx, int i, void *host);
    void *ctx;
} checkpoint_part;

/* In memory is one tensor at a time. The file is on the disk when it returns. */
hr_status hr_app_checkpoint_write_part(const char *temp, const checkpoint_info *info,
                                       const checkpoint_part *part);
/* The file of part `number` of `of`, in `folder`. */
void hr_app_checkpoint_name_part(const char *folder, int number, int of,
                                 char path[CHECKPOINT_PATH]);
/* Writes the index over the `parts` files in it, and commits. ERR_IO, naming the file, if one is not
 * there; `whose` (NULL: none) then says whose it is: "rank 2 on host b". Consumes `d`, on failure too. */
hr_status hr_app_checkpoint_seal(checkpoint_draft *d, const checkpoint_info *info,
                                 int keep, int parts,
                                 const char *(*whose)(void *ctx, int number),
                                 void *ctx);

#endif
