/* The part of CUDA C++ that the kernels use, for the host's compiler. Shared memory is memory of the
 * operating system's thread, which runs one block at a time; shuffles and ballots go through the
 * block's exchange, and demand that the whole warp takes part. */
#ifndef SIMT_SHIM_HPP
#define SIMT_SHIM_HPP
#include "simt/simt.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __restrict__ __restrict

namespace simt
{
/* What a running thread of a kernel can ask. */
struct thread_view {
    simt_dim thread, block, block_dim, grid_dim;
};
thread_view *self();
void *dynamic_shared();
void sync_block();
void sync_warp();
/* Every lane gives 8 bytes and gets those of all 32, valid until its next exchange. */
const uint64_t *exchange(uint64_t mine);

template <class T> T from_lane(T v, int lane)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    const uint64_t *all = exchange(bits);
    memcpy(&v, &all[lane & 31], sizeof v);
    return v;
}

void add(simt_kernel *k);

template <class... P> struct parameters {
    static void describe(simt_kernel *k)
    {
        const size_t sizes[] = {sizeof(P)...}, aligns[] = {alignof(P)...};
        size_t at = 0;
        k->n_params = (int)sizeof...(P);
        for (int i = 0; i < k->n_params; i++) {
            at = (at + aligns[i] - 1) / aligns[i] * aligns[i];
            k->size[i] = sizes[i];
            k->offset[i] = at;
            at += sizes[i];
        }
    }
};

template <class P> P parameter(const void *packed, size_t offset)
{
    P value;
    memcpy(&value, (const char *)packed + offset, sizeof value);
    return value;
}

template <int... I> struct indices {
};
template <int N, int... I> struct count_to : count_to<N - 1, N - 1, I...> {
};
template <int... I> struct count_to<0, I...> {
    typedef indices<I...> type;
};

/* One object a kernel: SIMT_KERNEL(hr_add) */
template <class F, F *function> struct entry;
template <class... P, void (*function)(P...)> struct entry<void(P...), function> {
    simt_kernel kernel;
    static entry *only;

    explicit entry(const char *name)
    {
        kernel.name = name;
        kernel.call = call;
        parameters<P...>::describe(&kernel);
        only = this;
        add(&kernel);
    }
    static void call(const void *packed)
    {
        pass(packed, typename count_to<sizeof...(P)>::type());
    }
    template <int... I> static void pass(const void *packed, indices<I...>)
    {
        function(parameter<P>(packed, only->kernel.offset[I])...);
    }
};
template <class... P, void (*function)(P...)>
entry<void(P...), function> *entry<void(P...), function>::only;
} // namespace simt

#define SIMT_KERNEL(name)                                                              \
    static simt::entry<decltype(name), name> simt_entry_##name(#name);

#define threadIdx                (simt::self()->thread)
#define blockIdx                 (simt::self()->block)
#define blockDim                 (simt::self()->block_dim)
#define gridDim                  (simt::self()->grid_dim)
#define HR_DYNAMIC_SHARED(T, at) T *at = static_cast<T *>(simt::dynamic_shared())

static inline void __syncthreads()
{
    simt::sync_block();
}
static inline void __syncwarp()
{
    simt::sync_warp();
}
/* By an exchange, which ThreadSanitizer understands, and not by a fence, which it does not. */
static inline void __threadfence_system()
{
    static int passed;
    __atomic_fetch_add(&passed, 1, __ATOMIC_SEQ_CST);
}
template <class T> static inline T __shfl_sync(unsigned, T v, int lane)
{
    return simt::from_lane(v, lane);
}
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int flip)
{
    return simt::from_lane(v, (int)(threadIdx.x & 31) ^ flip);
}
static inline unsigned __ballot_sync(unsigned, int yes)
{
    const uint64_t *all = simt::exchange(yes != 0);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++)
        bits |= (unsigned)all[lane] << lane;
    return bits;
}
static inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}
static inline int __ffs(unsigned bits)
{
    return __builtin_ffs((int)bits);
}
static inline int atomicCAS(int *at, int old, int wanted)
{
    __atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return old;
}
#endif
