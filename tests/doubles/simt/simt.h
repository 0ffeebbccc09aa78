/* Runs CUDA kernels on the processor, one block after the other: the same .cu sources, compiled by the
 * host's compiler (simt_shim.hpp), each thread of a block a fiber. Slow and exact: what it finds are
 * wrong indices, missing barriers (run the threads in another order) and, under ASan, what kernels
 * read and write out of bounds. It says nothing about a real GPU's arithmetic or speed.
 *
 *     const simt_kernel *k = simt_find("hr_add");
 *     simt_pack(k, args, packed, sizeof packed);   // what cudaLaunchKernelExC() gets
 *     const char *wrong = simt_run(k, grid, block, shared, packed);
 */
#ifndef SIMT_H
#define SIMT_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct simt_dim {
    unsigned x, y, z;
} simt_dim;

enum { SIMT_PARAMS = 24, SIMT_PACKED = 1024 };

typedef struct simt_kernel {
    const char *name;
    int n_params;
    size_t size[SIMT_PARAMS], offset[SIMT_PARAMS]; /* in what simt_pack() makes */
    void (*call)(const void *packed);              /* as one thread */
    struct simt_kernel *next;
} simt_kernel;

/* NULL: there is none of that name. */
const simt_kernel *simt_find(const char *name);

/* Copies what args[i] point at, one a parameter, side by side. 0, or -1: more than `cap` bytes. */
int simt_pack(const simt_kernel *k, void *const *args, void *to, size_t cap);

/* NULL, or what is wrong: a block too large, threads that wait for others that never come. On the
 * calling thread, which it blocks. */
const char *simt_run(const simt_kernel *k, simt_dim grid, simt_dim block, size_t shared,
                     const void *packed);

/* Whether the next runs, of all threads, take blocks and threads from the last to the first. */
__attribute__((visibility("default"))) void simt_reverse(int yes);

#ifdef __cplusplus
}
#endif
#endif
