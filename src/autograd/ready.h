/* The functions whose gradients are all there, newest first: a pairing heap through the
 * functions themselves, so that a pass of any size needs no memory for it. */
#ifndef HR_READY_H
#define HR_READY_H
#include "autograd/function.h"

void hr__ready_push(hr_function **top, hr_function *fn);
hr_function *hr__ready_pop(hr_function **top); /* NULL: empty */

#endif
