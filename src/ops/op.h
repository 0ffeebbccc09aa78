/* What the fronts of the operators share: checking operands, recording a function, saying which
 * memory a launch touches. A front checks, makes the outputs, launches, records; the
 * arithmetic is in the kernels, see kernels.h. */
#ifndef HR_OP_H
#define HR_OP_H
#include "base/try.h"
#include "headrace/ops.h"

enum { HR__ANY = -1 }; /* a dimension that may be anything */

/* Number of dimensions and dimensions, as two arguments. */
#define HR__DIMS(...)                                                                  \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                                  \
        __VA_ARGS__                                                                    \
    }

/* `out` is there; *out is NULL from here on until success. */
HR_RESULT hr_status hr__op_out(const char *op, hr_tensor **out);

/* `t` is there, has bytes, and is of this type and shape; else ERR_INVALID or ERR_STATE, naming
 * operator, operand and both shapes. */
HR_RESULT hr_status hr__op_expect(const char *op, const char *operand,
                                  const hr_tensor *t, hr_dtype type, int ndim,
                                  const int64_t *dims);

/* The type that an operator works in, by its first operand: bf16 if that is, else f32, which it is then expected
 * to be. */
static inline hr_dtype hr__op_type(const hr_tensor *t)
{
    return t && hr_tensor_dtype(t) == HR_BF16 ? HR_BF16 : HR_F32;
}

/* N = sequences * T, for operators that work by sequence. */
HR_RESULT hr_status hr__op_expect_sequences(const char *op, int64_t rows,
                                            int64_t seq_len);

/* Puts a function into the graph if one is needed: `saved` fill slots 0.., `ctx` (of the class's
 * size; may be NULL) is copied. */
HR_RESULT hr_status hr__op_record(const hr_function_class *cls,
                                  hr_tensor *const *inputs, int n_inputs,
                                  hr_tensor *const *saved, int n_saved, const void *ctx,
                                  hr_tensor *output);

/* Where backward adds the gradient of weight `input`, f32 of this shape. Of a leaf it is the gradient
 * buffer, and *grad_in stays NULL; of anything else fresh zeros that are *grad_in too.
 * Borrowed. */
HR_RESULT hr_status hr__op_weight_grad(hr_function *fn, int input, int ndim,
                                       const int64_t *dims, hr_tensor **grad_in,
                                       hr_tensor **out);

/* An uninitialised tensor shaped as `like`, and of its type. */
HR_RESULT hr_status hr__op_like(const hr_tensor *like, hr_tensor **out);

static inline hr_operand hr__op_use(const hr_tensor *t, hr_access access)
{
    if (!t)
        return (hr_operand){NULL, 0, access};
    return (hr_operand){hr_tensor_data(t), hr_tensor_bytes(t), access};
}
#define HR__IN(t)    hr__op_use((t), HR_READ)
#define HR__OUT(t)   hr__op_use((t), HR_WRITE)
#define HR__INOUT(t) hr__op_use((t), HR_READ_WRITE)

/* Launch on the current stream: name, kernel, a struct of arguments, operands. */
#define HR__LAUNCH(name, kernel, args, ...)                                            \
    hr__launch_kernel(                                                                 \
        hr_stream_current(), (name), &(kernel), &(args), sizeof(args),                 \
        (const hr_operand[]){__VA_ARGS__},                                             \
        (int)(sizeof((const hr_operand[]){__VA_ARGS__}) / sizeof(hr_operand)))

static inline int32_t *hr__op_i32(const hr_tensor *t)
{
    return hr_tensor_data(t);
}

#endif
