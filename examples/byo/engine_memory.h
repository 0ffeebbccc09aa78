/* The memory of an engine of one's own, lent as DLPack tensors.
 *
 * The structs are as much of DLPack as that takes, so that the example builds where <dlpack/dlpack.h>
 * is not installed. An engine includes that header in their place: names and layout are the same. */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { kDLCPU = 1, kDLFloat = 2 }; // NOLINT(readability-identifier-naming): theirs

typedef struct {
    int32_t device_type, device_id;
} DLDevice;

typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

enum { N = 8 };
typedef struct buffer {
    float data[N];
    bool lent; /* cleared on a stream's thread: look after a synchronise */
    int64_t shape[1];
    DLManagedTensor dl;
} buffer;

static void come_back(DLManagedTensor *dl)
{
    ((buffer *)dl->manager_ctx)->lent = false;
}

/* strides NULL: dense and row-major, the only layout that Headrace takes. */
static DLManagedTensor *lend(buffer *b)
{
    b->lent = true;
    b->shape[0] = N;
    b->dl = (DLManagedTensor){
        {b->data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, b->shape, NULL, 0}, b, come_back};
    return &b->dl;
}

#endif
