/* The end of memory that somebody else supplied: its deleter is work on a stream. */
#ifndef HR_FOREIGN_H
#define HR_FOREIGN_H
#include "tensor/tensor_impl.h"

/* Run the deleter of `st`, if any, on `s`, after what is queued there now and on every stream
 * that `st` was used on. It runs once, whatever fails: see foreign.c. */
void hr__foreign_delete(hr_storage *st, void *ptr, size_t bytes, hr_stream *s);

/* What is queued on `s` from now on waits for what is queued on `other` now. */
void hr__order_after(hr_stream *s, hr_stream *other);

#endif
