/* What hr__put_small() carries, as a parameter of a kernel. Plain C that is C++ too. */
#ifndef HR_CUDA_PUT_BYTES_H
#define HR_CUDA_PUT_BYTES_H

typedef struct hr__put_bytes {
    unsigned char at[112]; /* HR__PUT_BYTES */
} hr__put_bytes;

/* The kernels of cuda_put.cu. */
#define HR__CUDA_PUT_MAP(X) X(PUT, hr_put)

#endif
