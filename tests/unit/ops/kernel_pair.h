/* A kernel of the operators in both its forms, on the same numbers: the host's, and CUDA's on the test double.
 * Operands are exact pieces of memory of their own, so that ASan sees what a kernel touches beside
 * them. CUDA's form runs with the threads of its blocks in both orders, which must give the same bits:
 * else a barrier is missing.
 *
 *     hr__add_args a = {.count = n};
 *     PAIR_BOTH(add, a, 0, PAIR(add, out, n, REAL_OUT), PAIR(add, a, n, REAL), PAIR(add, b, n, REAL));
 */
#ifndef HR_KERNEL_PAIR_H
#define HR_KERNEL_PAIR_H
#include "op_check.h"
#include "ops/kernels.h"

typedef enum pair_kind {
    F32,      /* read */
    F32_OUT,  /* written; what is not must stay */
    REAL,     /* read; of the pair's type */
    REAL_OUT, /* written, of that type */
    F64_OUT,  /* as F32_OUT */
    I32,      /* read; 0..limit-1 */
    I32_OUT,  /* written */
    PERMUTED, /* read; i32, each of 0..count-1 once */
    I64,      /* read; given */
} pair_kind;

/* A pointer in the struct of arguments. */
typedef struct pair_operand {
    size_t at;
    int64_t count;
    pair_kind kind;
    int64_t limit;
    const void *given; /* NULL: numbers that follow from its place */
} pair_operand;
enum { PAIR_OPERANDS = 8 };
#define PAIR(type, field, count, kind) PAIR_OF(type, field, count, kind, 0, NULL)
#define PAIR_OF(type, field, count, kind, limit, given)                                \
    {                                                                                  \
        offsetof(hr__##type##_args, field), (count), (kind), (limit), (given)          \
    }

typedef struct kernel_pair {
    const hr__kernel *kernel;
    const void *args;
    size_t bytes;
    hr_dtype type; /* of what is REAL */
    double
        tolerance; /* of the greatest value; 0: the same bits. Else bf16 may be rounded to a neighbour */
    pair_operand op[PAIR_OPERANDS]; /* count 0 and kind 0 end them */
} kernel_pair;

/* For all pairs; close asserts that nothing lives on. */
hr_device *pair_open(void); /* NULL: there is no test double */
void pair_close(void);

void pair_check(const kernel_pair *p);

/* Numbers for an operand; the caller's to free. */
void *pair_numbers(const pair_operand *o, hr_dtype type, uint64_t seed);

/* One kernel: its name, its arguments but for the operands, the tolerance, the operands. */
#define PAIR_CHECK(name, a, allowed, ...)                                              \
    pair_check(&(kernel_pair){                                                         \
        &hr__k_##name, &(a), sizeof(a), HR_F32, allowed, {__VA_ARGS__}})

/* And for both types; `a` has a field `type`. */
#define PAIR_BOTH(name, a, allowed, ...)                                               \
    do {                                                                               \
        (a).type = HR_F32;                                                             \
        PAIR_CHECK(name, a, allowed, __VA_ARGS__);                                     \
        (a).type = HR_BF16;                                                            \
        pair_check(&(kernel_pair){                                                     \
            &hr__k_##name, &(a), sizeof(a), HR_BF16, allowed, {__VA_ARGS__}});         \
    } while (0)

#endif
