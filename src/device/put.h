/* Small numbers of the host, carried to a device in stream order. */
#ifndef HR_PUT_H
#define HR_PUT_H
#include "headrace/device.h"

enum { HR__PUT_BYTES = 112 };

/* `n` bytes, at most HR__PUT_BYTES, copied at the call. Enqueues on s. */
HR_RESULT hr_status hr__put_small(hr_stream *s, const char *name, void *to,
                                  const void *bytes, size_t n);

#endif
