/* What the benchmarks of a GPU share: the device that the command line names, and matrices of numbers. Zeros
 * would be no fair work: a GPU draws less power for them, and may clock higher. */
#ifndef GPU_KIT_H
#define GPU_KIT_H
#include "bench.h"
#include "headrace/ops.h"

static inline hr_device *gpu_open(const char *backend)
{
    hr_device *dev;
    ok(hr_device_open(backend, NULL, &dev));
    hr_device_set_current(dev);
    hr_grad_mode_set(false);
    return dev;
}

/* [rows,cols] of numbers between -1 and 1. */
static inline hr_tensor *gpu_matrix(int64_t rows, int64_t cols)
{
    const int64_t shape[] = {rows, cols};
    size_t bytes = (size_t)(rows * cols) * sizeof(float);
    float *v = malloc(bytes);
    hr_tensor *t;
    ok(v ? HR_OK : HR_ERR_NOMEM);
    for (int64_t i = 0; i < rows * cols; i++)
        v[i] = (float)((i * 2654435761U) % 65536) / 32768.0F - 1.0F;
    ok(hr_tensor_create(HR_F32, 2, shape, &t));
    ok(hr_tensor_write(t, v, bytes));
    free(v);
    return t;
}

/* x w^T, thrown away. */
static inline void gpu_product(hr_tensor *x, hr_tensor *w)
{
    hr_tensor *out;
    ok(hr_op_linear(x, w, NULL, &out));
    hr_tensor_release(out);
}

/* The number in a command line's word, or `other` where there is none. */
static inline int gpu_number(int argc, char **argv, int word, int other)
{
    return argc > word ? (int)strtol(argv[word], NULL, 10) : other;
}

#endif
