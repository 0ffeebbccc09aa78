/* Blocks from per-thread free lists: tensors, storages, functions, nodes, plans, queue items. In
 * steady state none of them costs a call to malloc.
 *
 * A block may be put back on another thread than the one it came from; it then joins that
 * thread's list. Lists are bounded and go when their thread ends. With sanitizers every
 * block is malloc's, so that they see each use after release. */
#ifndef HR_POOL_H
#define HR_POOL_H
#include <stddef.h>

void *hr__pool_get(size_t bytes); /* zeroed, 16-aligned; NULL: out of memory */
void hr__pool_put(void *block,
                  size_t bytes); /* the size that it was asked with; NULL ok */

/* How many blocks wait on this thread's lists; 0 where the pool is bypassed. */
size_t hr__pool_idle(void);

#endif
