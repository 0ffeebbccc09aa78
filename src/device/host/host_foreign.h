/* A host stream whose entries another engine's executor works off. */
#ifndef HR_HOST_FOREIGN_H
#define HR_HOST_FOREIGN_H
#include "device/host/host_device.h"

hr_status hr__host_stream_wrap(hr_stream *s, const hr_stream_wrap_opts *o);
void *hr__host_stream_native(const hr_stream *s);

/* One more entry is in the ring. */
void hr__foreign_submit(hr__host_stream *h);
/* Has all that was there, other work included, run? PENDING work is asked about once. */
bool hr__foreign_idle(hr__host_stream *h);
/* The executor has left the stream for good; what it holds goes. The ring is empty. */
void hr__foreign_fini(hr__host_stream *h);

#endif
