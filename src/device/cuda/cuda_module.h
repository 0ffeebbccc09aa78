/* The CUDA kernels of a room: fatbins that nvcc made of its .cu files (cmake/nvcc.cmake), which lie in the
 * library as bytes, and the kernels in them by name. A runtime gets them when the first is launched and
 * keeps them, as the process keeps the runtime.
 *
 *     static const void *const code[] = {hr__fatbin_cuda_rows};
 *     static const char *const names[] = {[ADD] = "hr_add"};
 *     static hr__cuda_module module = HR__CUDA_MODULE(code, names);
 *     HR_TRY(HR__CUDA_RUN(s, &module, ADD, hr__cuda_flat(count), &out, &a, &b, &count));
 */
#ifndef HR_CUDA_MODULE_H
#define HR_CUDA_MODULE_H
#include "device/cuda/cuda_shape.h"
#include "device/cuda/cudart.h"

struct hr__cuda_loaded;
typedef struct hr__cuda_module {
    const void *const *code;
    int n_code;
    const char *const *names;
    int n_kernels;
    struct hr__cuda_loaded *_Atomic loaded; /* one a runtime; they stay */
} hr__cuda_module;

#define HR__CUDA_MODULE(code, names)                                                   \
    {                                                                                  \
        (code), (int)(sizeof(code) / sizeof((code)[0])), (names),                      \
            (int)(sizeof(names) / sizeof((names)[0])), NULL                            \
    }

/* The kernels of one file, `static hr__cuda_module module`, with their numbers as constants. */
#define HR__CUDA_NUMBER_OF(number, name) number,
#define HR__CUDA_NAME_OF(number, name)   #name,
#define HR__CUDA_MODULE_OF_ONE(module, file, MAP)                                      \
    extern const unsigned long long hr__fatbin_##file[];                               \
    enum { MAP(HR__CUDA_NUMBER_OF) };                                                  \
    static const void *const module##_code[] = {hr__fatbin_##file};                    \
    static const char *const module##_names[] = {MAP(HR__CUDA_NAME_OF)};               \
    static hr__cuda_module module = HR__CUDA_MODULE(module##_code, module##_names);

/* Blocks of HR_THREADS, and shared memory beside what the kernel has by itself. No blocks: nothing is
 * launched. */
typedef struct hr__cuda_grid {
    int64_t x, y, z;
    size_t shared;
} hr__cuda_grid;

/* A warp a row. */
static inline hr__cuda_grid hr__cuda_by_row(int64_t rows)
{
    return (hr__cuda_grid){(rows + HR_WARPS - 1) / HR_WARPS, 1, 1, 0};
}

/* For kernels that go on to the next element by hr_stride(). */
enum { HR__CUDA_FLAT_BLOCKS = 4096 };
static inline hr__cuda_grid hr__cuda_flat(int64_t count)
{
    int64_t blocks = (count + HR_THREADS - 1) / HR_THREADS;
    return (hr__cuda_grid){
        blocks < HR__CUDA_FLAT_BLOCKS ? blocks : HR__CUDA_FLAT_BLOCKS, 1, 1, 0};
}

static inline hr__cuda_grid hr__cuda_blocks(int64_t x, int64_t y, int64_t z)
{
    return (hr__cuda_grid){x, y, z, 0};
}

/* Puts kernel `which` on the stream; args[i] points at parameter i. ERR_INVALID for a grid that no GPU takes;
 * ERR_NOMEM, ERR_DEVICE. */
HR_RESULT hr_status hr__cuda_module_run(hr_stream *s, hr__cuda_module *m, int which,
                                        hr__cuda_grid grid, void **args);
#define HR__CUDA_RUN(s, module, which, grid, ...)                                      \
    hr__cuda_module_run((s), (module), (which), (grid), (void *[]){__VA_ARGS__})

/* What an index may be, on the device of `s`. */
hr__index_rule hr__cuda_index_rule(const hr_stream *s, const char *op, const char *what,
                                   int32_t least, int64_t limit);

#endif
