/* nccl_library.h: the functions of NCCL that are called, typed by its header and filled by dlopen and dlsym when the
 * first group wants them. HEADRACE_NCCL names a library by its path. */
#ifndef HR_NCCL_LIBRARY_H
#define HR_NCCL_LIBRARY_H
#include "base/shared_library.h"
#include "device/cuda/cudart.h"

#include <nccl.h>

/* Every function that is called, and no other: a library that lacks one is refused. */
#define HR__NCCL_MAP(X)                                                                \
    X(ncclGetVersion)                                                                  \
    X(ncclGetErrorString)                                                              \
    X(ncclGetLastError)                                                                \
    X(ncclGetUniqueId)                                                                 \
    X(ncclCommInitRankConfig)                                                          \
    X(ncclCommFinalize)                                                                \
    X(ncclCommDestroy)                                                                 \
    X(ncclCommAbort)                                                                   \
    X(ncclCommGetAsyncError)                                                           \
    X(ncclCommCount)                                                                   \
    X(ncclCommUserRank)                                                                \
    X(ncclCommCuDevice)                                                                \
    X(ncclAllReduce)                                                                   \
    X(ncclAllGather)                                                                   \
    X(ncclReduceScatter)                                                               \
    X(ncclBroadcast)                                                                   \
    X(ncclSend)                                                                        \
    X(ncclRecv)                                                                        \
    X(ncclGroupStart)                                                                  \
    X(ncclGroupEnd)                                                                    \
    X(ncclMemAlloc)                                                                    \
    X(ncclMemFree)                                                                     \
    X(ncclCommWindowRegister)                                                          \
    X(ncclCommWindowDeregister)

typedef struct hr__nccl {
    HR__NCCL_MAP(HR__SYMBOL_FIELD)
    const char
        *double_of; /* what a test double calls itself; NULL: it is the real one */
    int version;    /* as NCCL_VERSION_CODE */
} hr__nccl;

/* Loaded once; it stays. ERR_UNSUPPORTED "no_nccl" with what the loader said, "old_nccl" with what is missing. */
HR_RESULT hr_status hr__nccl_load(const hr__nccl **out);
/* The same, where it can be used with this runtime: a test double wants another one, and neither takes the real
 * other. */
HR_RESULT hr_status hr__nccl_load_for(const hr__cudart *rt, const hr__nccl **out);

/* OK, also for what is in progress; or ERR_DEVICE "nccl" with the call, NCCL's words, and what it says beside them
 * of `comm` (NULL: of none). */
HR_RESULT hr_status hr__nccl_status(const hr__nccl *lib, ncclResult_t e,
                                    ncclComm_t comm, const char *call);

#endif
