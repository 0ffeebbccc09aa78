/* What DLPack's own header says about its structs, for comparison with ours. The two headers
 * declare the same tags, so no file can include both. */
#ifndef DLPACK_THEIRS_H
#define DLPACK_THEIRS_H
#include "headrace/tensor.h"
#include <stddef.h>

typedef struct dlpack_layout {
    size_t bytes, data, device_type, device_id, ndim, code, bits, lanes, shape, strides,
        byte_offset, manager_ctx, deleter;
    size_t cpu, code_int, code_uint, code_float, code_bfloat;
} dlpack_layout;

typedef struct dlpack_versioned_layout {
    size_t bytes, major, minor, manager_ctx, deleter, flags, tensor;
    size_t major_number, read_only;
} dlpack_versioned_layout;

/* Fields of one type, so that there is no padding: compared as a whole.
 * NULL where the header is not installed, or is from before that struct. */
const dlpack_layout *dlpack_theirs(void);
const dlpack_versioned_layout *dlpack_theirs_versioned(void);

/* Out and in again, through pointers of their type. ERR_UNSUPPORTED without the header. */
hr_status dlpack_round_trip(hr_tensor *t, hr_tensor **back);

#endif
