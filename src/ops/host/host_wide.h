/* Host kernels on bf16: the kernel for f32 runs on f32 copies of the operands, and what it made is rounded. So
 * there is one text of each, and it rounds where the kernels of a GPU do: once, when a result is
 * stored. It shows what bf16 does to a model; to be fast it is not.
 *
 *     if (a.type == HR_BF16)
 *         return HR__WIDE_RUN(hr__host_add, a, team, {&a.out, a.count, HR_WRITE},
 *                             {&a.a, a.count, HR_READ}, {&a.b, a.count, HR_READ});
 */
#ifndef HR_HOST_WIDE_H
#define HR_HOST_WIDE_H
#include "ops/host/host_parts.h"

enum { HR__WIDE_MOST = 5 }; /* operands of a kernel */

/* One that is bf16. */
typedef struct hr__wide {
    void *
        pointer; /* to the pointer in the arguments, which may be NULL: then there is none */
    int64_t count;
    hr_access access;
} hr__wide;

/* Runs `f32` on `args` with copies in place of the `n` operands. */
HR_RESULT hr_status hr__wide_run(hr_kernel f32, const void *args, hr_team *team,
                                 const hr__wide *operands, int n);

/* `args` is a copy that may be changed. */
#define HR__WIDE_RUN(f32, args, team, ...)                                             \
    ((args).type = HR_F32,                                                             \
     hr__wide_run((f32), &(args), (team), (const hr__wide[]){__VA_ARGS__},             \
                  (int)(sizeof((const hr__wide[]){__VA_ARGS__}) / sizeof(hr__wide))))

#endif
