/* stream_check.h: the stream checker, HEADRACE_CHECK=streams or hr_device_opts.check. What it
 * finds is told in stream_check.c; a device without it pays one test of a pointer a call.
 *
 * The calls below are for devices that have one (dev->check is not NULL). They are made by
 * the issuing thread. */
#ifndef HR_STREAM_CHECK_H
#define HR_STREAM_CHECK_H
#include "device/memory_pool.h"

typedef struct hr__check hr__check;

hr__check *hr__check_create(void); /* NULL: no memory */
void hr__check_destroy(hr__check *c);

/* A launch of `s`, before it is counted, and what it touches. */
void hr__check_launch(hr__check *c, hr_stream *s, const char *name,
                      const hr_operand *operands, int n);

/* A block begins a life on `s`. */
void hr__check_alloc(hr__check *c, const hr_stream *s, const hr__block *b);
/* A block is freed at the position of `s` (NULL: its home is gone); its `uses` are known. */
void hr__check_free(hr__check *c, hr_device *dev, const hr_stream *s,
                    const hr__block *b);

/* An event is recorded on `s`, which a former record may not survive; is waited for by `s`. */
void hr__check_record(hr__check *c, const hr_event *e, const hr_stream *s);
void hr__check_wait(hr__check *c, const hr_event *e, const hr_stream *s);

/* Bytes that are not the device's are given back to where they came from: what comes there
 * next has nothing to do with them. */
void hr__check_forget(hr__check *c, const void *ptr, size_t bytes);

void hr__check_name(hr__check *c, const void *ptr, size_t bytes, const char *name);

/* What sentences call the work that the calling thread issues on `s` now:
 * "'mlp' backward (layer 2, microbatch 3) on 'compute'". */
enum { HR__WORK_TEXT = 192 };
void hr__check_describe(const hr_stream *s, char text[HR__WORK_TEXT]);

#endif
