/* A checkpoint is one file, `checkpoint/model.safetensors` in the folder that --out names:
 * parameters, optimiser state, and in its metadata the shape of the model, the step, the seed and a
 * schedule that was searched for. It
 * is replaced whole, so that the earlier one survives any failure. With `keep` above 1 the
 * former ones stay beside it as `model-step-00000100.safetensors`.
 */
#ifndef HR_APP_CHECKPOINT_H
#define HR_APP_CHECKPOINT_H
#include "options.h"
#include "safetensors.h"

typedef struct checkpoint_info {
    model_shape model;
    int64_t step; /* steps done */
    int64_t seed;
    const char *schedule; /* to write: what --schedule auto chose; NULL: none */
} checkpoint_info;

/* Its key in the metadata. */
#define CHECKPOINT_SCHEDULE "schedule"

/* Makes the folders that are missing. */
hr_status hr_app_checkpoint_write(const char *out, const checkpoint_info *info,
                                  int keep, const st_tensor *tensors, int n);

/* `path`: the file, its folder, or what --out named. *file is the caller's, for
 * hr_app_safetensors_close(). Errors: as hr_app_safetensors_open(); ERR_PARSE where the metadata is not
 * that of a checkpoint. */
hr_status hr_app_checkpoint_open(const char *path, checkpoint_info *info,
                                 safetensors **file);

/* ERR_MISMATCH, naming option and both values, if `have` (of `path`) cannot go on as `want`. */
hr_status hr_app_checkpoint_check(const char *path, const model_shape *have,
                                  const model_shape *want);

/* What --resume goes on from: opens and checks the checkpoint in --out. ERR_INVALID if it has done all
 * --steps. *file as above. */
hr_status hr_app_checkpoint_resume(const train_options *o, checkpoint_info *info,
                                   safetensors **file);

/* mkdir -p. */
hr_status hr_app_make_folders(const char *path);

#endif
