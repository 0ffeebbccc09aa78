/* A test double of NCCL: the functions of group/nccl/nccl_library.h between threads of one process, as work of the GPU
 * on the streams of the double of the CUDA runtime. It keeps NCCL's rules where ours depend on them: operations of a
 * communicator run in the order of their streams, sends meet receives in order per pair, all of a group is one
 * piece of work, communicators that do not block are in progress until all have come, buffers are memory of CUDA's,
 * two ranks on one GPU are refused, sums are taken round the ring. And it is a checker of order: it compares, per
 * communicator, what ranks call, how many elements of what, from which root, how long messages are, and where in its
 * window a buffer lies; where they differ it says so on standard error, and all ranks get an asynchronous error. With
 * HEADRACE_DOUBLE_UNCHECKED=1 it does not, and ranks that differ wait for each other in vain, as NCCL's do.
 *
 * It proves that our calls are right by these rules, and nothing about NVIDIA's library. Headrace loads it by
 * HEADRACE_NCCL=path; what is below is for tests, by dlsym. Which call fails, and the line at exit, are asked for as with
 * the runtime's double (cudart_double.h); calls of both count together. */
#ifndef HR_NCCL_DOUBLE_H
#define HR_NCCL_DOUBLE_H

typedef struct nccl_live {
    long comms, windows, blocks;
} nccl_live;

/* What it calls itself; the real library has no such symbol. */
extern const char headrace_nccl_double[];

void headrace_nccl_count(nccl_live *out);
/* All communicators that live report this ncclResult_t from now on, as after a failure of the network. */
void headrace_nccl_break(int result);

#endif
