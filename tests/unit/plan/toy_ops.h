/* A few differentiable operators with known derivatives, enough for a toy mixture of experts. Shapes
 * are [rows, WIDTH]. Those with a weight [WIDTH] add its gradient to hr_grad_buffer(), now or by
 * the queue. */
#ifndef TOY_OPS_H
#define TOY_OPS_H
#include "headrace/plan.h"

enum { TOY_WIDTH = 4 };

/* y = w * x, by column */
hr_status toy_scale(hr_tensor *x, hr_tensor *w, hr_wgrad_queue *queue, hr_tensor **out);
/* y = x + x^3 / 8 */
hr_status toy_bend(hr_tensor *x, hr_tensor **out);
hr_status toy_add(hr_tensor *a, hr_tensor *b, hr_tensor **out);
/* Row r goes to rank r * size / rows, and comes from there in backward. */
hr_status toy_exchange(hr_group *group, hr_tensor *x, int tag, hr_tensor **out);
/* sum of y^2 / 2 -> [1] */
hr_status toy_loss(hr_tensor *y, hr_tensor **out);

/* Watches the calling thread's operators: the exchanges in order of issue, `tag` forward and -tag
 * backward; and each kernel takes up to `delay_us` longer, at random. */
enum { TOY_LOG = 256 };
typedef struct toy_watch {
    uint32_t random; /* state; each rank starts elsewhere */
    uint32_t delay_us;
    int n, log[TOY_LOG];
} toy_watch;
void toy_watch_set(toy_watch *w); /* kept by address; NULL: none */

#endif
