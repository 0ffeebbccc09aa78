/* The structs of DLPack's ABI, from its specification, so that no header of it is needed to build.
 * DLManagedTensor is what every version has; DLManagedTensorVersioned came with 1.0. The tags are
 * DLPack's own: a caller who has its header passes its pointers as they are. Compared with that
 * header where it is installed (tests/unit/tensor/dlpack_theirs.c). */
#ifndef HR_DLPACK_ABI_H
#define HR_DLPACK_ABI_H
#include <stdint.h>

enum { HR__DL_CPU = 1, HR__DL_CUDA = 2, HR__DL_CUDA_MANAGED = 13 };
enum { HR__DL_INT = 0, HR__DL_UINT = 1, HR__DL_FLOAT = 2, HR__DL_BFLOAT = 4 };
enum { HR__DL_MAJOR = 1, HR__DL_READ_ONLY = 1 };

struct hr__dl_device {
    int32_t type, id;
};

struct hr__dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
};

struct hr__dl_tensor {
    void *data;
    struct hr__dl_device device;
    int32_t ndim;
    struct hr__dl_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense, row-major */
    uint64_t byte_offset;
};

struct DLManagedTensor {
    struct hr__dl_tensor tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct hr__dl_tensor tensor;
};

#endif
