/* Checks one operator: forward against a plain reference in double, its gradients against finite
 * differences of that reference, and that neither the team's size, nor where the inputs lie,
 * nor a queue for weight gradients changes a bit. */
#ifndef HR_OP_CHECK_H
#define HR_OP_CHECK_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/ops.h"

enum { OP_INPUTS = 4 };

typedef struct op_check {
    const void *ctx;
    /* The operator on `in`; *out is one reference. */
    hr_status (*run)(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                     hr_tensor **out);
    /* The same in double. Returns what joins the loss beside the output (0 for most). */
    double (*reference)(const void *ctx, double *const *in, double *out);
    struct op_input {
        int ndim;
        int64_t shape[4];
        double scale;  /* values lie in -scale..scale; 0: 1 */
        bool constant; /* requires no grad */
        bool f32;      /* where the others are bf16, too */
    } in[OP_INPUTS];
    double tolerance; /* of the greatest value; 0: 1e-5 */
    bool queued;      /* takes weight gradients to a queue */
} op_check;

void op_check_run(const op_check *c);
/* The same on bf16. What is bf16 may be off by its rounding, 2^-8 of the greatest value; what is f32 by no more
 * than there: the reference has the rounded inputs. */
void op_check_bf16(const op_check *c);

/* Asserts HR_OK, printing the last error. */
void op_ok(hr_status st);
/* Asserts `st` and that the last error has every one of the texts (NULL ends them). */
void op_fails(hr_status got, hr_status want, ...);

hr_device *op_open(int cores); /* of the backend that support/backend.h says; current */
/* Asserts that nothing lives on it. */
void op_close(hr_device *dev);

hr_tensor *op_f32(int ndim, const int64_t *shape,
                  const float *values); /* NULL: zeros */
hr_tensor *op_bf16(int ndim, const int64_t *shape,
                   const float *values); /* rounded; NULL: zeros */
hr_tensor *op_i32(int ndim, const int64_t *shape, const int32_t *values);
#define OP_SHAPE(...)                                                                  \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                                  \
        __VA_ARGS__                                                                    \
    }

/* What a tensor of f32 or bf16 holds; the caller's to free. */
float *op_contents(hr_tensor *t);

/* A number in -1..1 that depends on nothing but its place. */
double op_random(uint64_t stream, uint64_t at);

#endif
