/* Where kernels say what they found wrong, for they have no status to return. In memory that both sides
 * see, one a device. A kernel that wins `set` from 0 to 1 writes the rest, then sets 2; whoever waits
 * for the stream next fails the device with "<op>: <what>[<at>] is <value>, not <least>..<limit-1>".
 * Plain C that is C++ too. */
#ifndef HR_CUDA_FAULT_H
#define HR_CUDA_FAULT_H
#include <stdint.h>

typedef struct hr__cuda_fault {
    int32_t set, least;
    const char *op, *what; /* of the host, literals; kernels carry them as numbers */
    int64_t at, value, limit;
} hr__cuda_fault;

#endif
