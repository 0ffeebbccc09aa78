/* Ranges for NVIDIA's profilers, in a domain "headrace" of their own. Nothing happens where the build has
 * no NVTX, and next to nothing where no profiler listens. */
#ifndef HR_TRACE_NVTX_H
#define HR_TRACE_NVTX_H

void hr__nvtx_push(const char *name); /* of the calling thread; copied by who listens */
void hr__nvtx_pop(void);

#endif
