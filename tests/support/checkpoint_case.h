/* checkpoint_case.h: checkpoints as several ranks write them, made by one thread. */
#ifndef HR_TEST_CHECKPOINT_CASE_H
#define HR_TEST_CHECKPOINT_CASE_H
#include "checkpoint.h"

/* One file of it: tensors, and the elements of each. */
typedef struct case_file {
    const st_tensor *tensors;
    const float *const *data;
    int n;
} case_file;

/* Writes and commits. */
hr_status checkpoint_case_write(const char *out, const checkpoint_info *info, int keep,
                                const case_file *files, int n);

#endif
