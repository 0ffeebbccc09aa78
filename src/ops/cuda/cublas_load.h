/* The functions of cuBLAS that are called, typed by its header and filled by dlopen and dlsym at the first
 * product: loading it takes a quarter of a second. HEADRACE_CUBLAS names another one by its path. */
#ifndef HR_CUBLAS_LOAD_H
#define HR_CUBLAS_LOAD_H
#include "base/shared_library.h"
#include "headrace/base.h"

#include <cublas_v2.h>

#define HR__CUBLAS_MAP(X)                                                              \
    X(cublasCreate_v2)                                                                 \
    X(cublasDestroy_v2)                                                                \
    X(cublasGetStatusString)                                                           \
    X(cublasSetStream_v2)                                                              \
    X(cublasSetWorkspace_v2)                                                           \
    X(cublasSetMathMode)                                                               \
    X(cublasSetAtomicsMode)                                                            \
    X(cublasGemmEx)

typedef struct hr__cublas {
    HR__CUBLAS_MAP(HR__SYMBOL_FIELD)
} hr__cublas;

/* ERR_UNSUPPORTED "no_cublas" with what the loader said, "old_cublas" with what is missing. What was loaded
 * stays. */
HR_RESULT hr_status hr__cublas_load(const hr__cublas **out);

/* OK, or ERR_DEVICE "cublas", with the call and its words. */
HR_RESULT hr_status hr__cublas_status(const hr__cublas *blas, cublasStatus_t e,
                                      const char *call);

#endif
