/* What is long and must be alike is compared by a number: begin with HR__NO_HASH (FNV-1a, by words). */
#ifndef HR_MIX_H
#define HR_MIX_H
#include <stdint.h>

#define HR__NO_HASH UINT64_C(14695981039346656037)
static inline uint64_t hr__mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(1099511628211);
}

#endif
