/* The stream-ordered cache of memory blocks of one device. See memory_pool.c. */
#ifndef HR_MEMORY_POOL_H
#define HR_MEMORY_POOL_H
#include "device/order_clock.h"

enum { HR__SIZE_CLASSES = 424 };

typedef struct hr__block {
    void *ptr;
    size_t bytes;     /* room of its size class */
    size_t requested; /* while live */
    int size_class;
    int home; /* id of the stream of its last alloc */
    bool live;
    uint32_t recorded;  /* ids of the streams it is used on beside that of its free */
    hr__clock uses;     /* while free: what must come before the next use */
    bool fill_on_alloc; /* poison: not filled since its last use */
    hr_event *poisoned; /* poison: reached when it has been */
    struct hr__block *next; /* free list of its class */
} hr__block;

/* From address to block; all blocks of a pool, free or live, until the pool goes. */
typedef struct hr__block_index {
    hr__block **at;
    size_t room, used; /* room is a power of two, or 0 */
} hr__block_index;

hr__block *hr__index_find(const hr__block_index *ix, const void *ptr);
bool hr__index_add(hr__block_index *ix, hr__block *b); /* false: no memory */
void hr__index_fini(hr__block_index *ix);              /* frees the blocks too */

/* A piece of the system's memory. All slabs of the process are listed, so that a block's
 * device can be told from its address. */
typedef struct hr__slab {
    struct hr__slab *next_of_pool;
    struct hr__slab *prev, *next; /* all of the process; memory_slab.c has the lock */
    hr_device *dev;
    char *base;
    size_t bytes;
} hr__slab;

hr__slab *hr__slab_new(hr_device *dev, size_t bytes); /* NULL: no memory */
void hr__slab_free(hr__slab *slab);
hr_device *hr__slab_owner(const void *ptr); /* NULL: of no device */

typedef struct hr__pool {
    hr_device *dev;
    size_t limit; /* of live bytes; 0: none */
    bool poison;
    hr__block *free_lists[HR__SIZE_CLASSES];
    hr__block_index index;
    hr__slab *slabs;
    char *cut, *cut_end; /* the rest of the slab that small blocks are cut from */
    hr_mem_stats stats;
} hr__pool;

void hr__pool_init(hr__pool *p, hr_device *dev, size_t limit, bool poison);
void hr__pool_fini(hr__pool *p);
hr_status hr__pool_alloc(hr__pool *p, hr_stream *s, size_t bytes, void **out);
void hr__pool_free(hr__pool *p, hr__block *b, hr_stream *s);

#endif
