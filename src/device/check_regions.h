/* check_regions.h: the blocks that a device's memory was cut into, as the stream checker sees
 * them, and the memory outside: who uses them, who freed them, and what they are called. */
#ifndef HR_CHECK_REGIONS_H
#define HR_CHECK_REGIONS_H
#include "device/check_shades.h"

typedef struct hr__label {
    const char *begin, *end;
    char name[32];
} hr__label;

/* Parts of a block, as tensors over it are named; past the limit the oldest goes. */
enum { HR__LABELS = 1024 };
typedef struct hr__labels {
    hr__label *at; /* [room] */
    int n, room, oldest;
} hr__labels;

typedef struct hr__region {
    const char *begin, *end; /* NULL: outside of all blocks */
    bool freed;
    hr__use born, died; /* last alloc, last free */
    hr__shades shades;
    hr__labels labels;
} hr__region;

typedef struct hr__regions {
    hr__region **at; /* by address */
    size_t n, room;
    hr__region outside;
} hr__regions;

void hr__regions_fini(hr__regions *all);

/* The block that begins at `begin`, made if it is new; NULL: no memory. */
hr__region *hr__regions_make(hr__regions *all, const char *begin, const char *end);
/* Where `p` lies; *end: where that ends, at most at `limit`. */
hr__region *hr__regions_find(hr__regions *all, const char *p, const char *limit,
                             const char **end);

void hr__label_put(hr__region *r, const char *begin, const char *end, const char *name);
void hr__label_clear(hr__region *r, const char *begin, const char *end);
/* The name of the least labelled part around `p`; NULL: none. */
const char *hr__label_get(const hr__region *r, const char *p);

#endif
