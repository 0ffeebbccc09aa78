/* Measures DLPack's own header, where there is one; see dlpack_theirs.h. */
#include "unit/tensor/dlpack_theirs.h"

#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>

/* The public functions take pointers of that header as they are. */
hr_status dlpack_round_trip(hr_tensor *t, hr_tensor **back)
{
    DLManagedTensor *theirs;
    hr_status st = hr_tensor_to_dlpack(t, &theirs);
    return st < 0 ? st : hr_tensor_from_dlpack(theirs, back);
}

const dlpack_layout *dlpack_theirs(void)
{
    static const dlpack_layout theirs = {
        .bytes = sizeof(DLManagedTensor),
        .data = offsetof(DLManagedTensor, dl_tensor.data),
        .device_type = offsetof(DLManagedTensor, dl_tensor.device.device_type),
        .device_id = offsetof(DLManagedTensor, dl_tensor.device.device_id),
        .ndim = offsetof(DLManagedTensor, dl_tensor.ndim),
        .code = offsetof(DLManagedTensor, dl_tensor.dtype.code),
        .bits = offsetof(DLManagedTensor, dl_tensor.dtype.bits),
        .lanes = offsetof(DLManagedTensor, dl_tensor.dtype.lanes),
        .shape = offsetof(DLManagedTensor, dl_tensor.shape),
        .strides = offsetof(DLManagedTensor, dl_tensor.strides),
        .byte_offset = offsetof(DLManagedTensor, dl_tensor.byte_offset),
        .manager_ctx = offsetof(DLManagedTensor, manager_ctx),
        .deleter = offsetof(DLManagedTensor, deleter),
        .cpu = kDLCPU,
        .code_int = kDLInt,
        .code_uint = kDLUInt,
        .code_float = kDLFloat,
        .code_bfloat = kDLBfloat,
    };
    return &theirs;
}
#else
hr_status dlpack_round_trip(hr_tensor *t, hr_tensor **back)
{
    return HR_ERR_UNSUPPORTED;
}

const dlpack_layout *dlpack_theirs(void)
{
    return NULL;
}
#endif

#ifdef DLPACK_FLAG_BITMASK_READ_ONLY
const dlpack_versioned_layout *dlpack_theirs_versioned(void)
{
    static const dlpack_versioned_layout theirs = {
        .bytes = sizeof(DLManagedTensorVersioned),
        .major = offsetof(DLManagedTensorVersioned, version.major),
        .minor = offsetof(DLManagedTensorVersioned, version.minor),
        .manager_ctx = offsetof(DLManagedTensorVersioned, manager_ctx),
        .deleter = offsetof(DLManagedTensorVersioned, deleter),
        .flags = offsetof(DLManagedTensorVersioned, flags),
        .tensor = offsetof(DLManagedTensorVersioned, dl_tensor),
        .major_number = DLPACK_MAJOR_VERSION,
        .read_only = DLPACK_FLAG_BITMASK_READ_ONLY,
    };
    return &theirs;
}
#else
const dlpack_versioned_layout *dlpack_theirs_versioned(void)
{
    return NULL;
}
#endif
