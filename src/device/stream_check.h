/* The stream checker: HEADRACE_CHECK=streams. See stream_check.c. */
#ifndef HR_STREAM_CHECK_H
#define HR_STREAM_CHECK_H
#include "device/memory_pool.h"

typedef struct hr__check hr__check;

hr__check *hr__check_create(void); /* NULL: no memory */
void hr__check_destroy(hr__check *c);

/* A launch of `s`, before it is counted, and what it touches. */
void hr__check_launch(hr__check *c, hr_stream *s, const char *name,
                      const hr_operand *operands, int n);

/* A block is freed; its `uses` are known. */
void hr__check_free(hr__check *c, hr_device *dev, const hr__block *b);

#endif
