/* A pairing heap; see ready.h. Its children hang on heap_child as a list by heap_next. */
#include "autograd/ready.h"

static hr_function *meld(hr_function *a, hr_function *b)
{
    if (!a || !b)
        return a ? a : b;
    if (a->seq < b->seq) {
        hr_function *t = a;
        a = b;
        b = t;
    }
    b->heap_next = a->heap_child;
    a->heap_child = b;
    return a;
}

void hr__ready_push(hr_function **top, hr_function *fn)
{
    fn->heap_child = fn->heap_next = NULL;
    *top = meld(*top, fn);
}

/* Meld neighbours from left to right, then the pairs from right to left. */
hr_function *hr__ready_pop(hr_function **top)
{
    hr_function *fn = *top, *pairs = NULL, *left, *right, *rest;
    if (!fn)
        return NULL;
    for (left = fn->heap_child; left; left = rest) {
        right = left->heap_next;
        rest = right ? right->heap_next : NULL;
        left->heap_next = NULL;
        if (right)
            right->heap_next = NULL;
        left = meld(left, right);
        left->heap_next = pairs;
        pairs = left;
    }
    for (*top = NULL; pairs; pairs = rest) {
        rest = pairs->heap_next;
        pairs->heap_next = NULL;
        *top = meld(*top, pairs);
    }
    fn->heap_child = NULL;
    return fn;
}
