/* A hash table from address to block: open addressing, no removal. */
#include <stdlib.h>

#include "device/memory_pool.h"

/* Blocks are 64-byte aligned; the multiplier spreads the rest over the high bits. */
static size_t place(const hr__block_index *ix, const void *ptr)
{
    uint64_t h = ((uint64_t)(uintptr_t)ptr >> 6) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 32) & (ix->room - 1);
}

hr__block *hr__index_find(const hr__block_index *ix, const void *ptr)
{
    if (ix->room == 0)
        return NULL;
    for (size_t i = place(ix, ptr); ix->at[i]; i = (i + 1) & (ix->room - 1))
        if (ix->at[i]->ptr == ptr)
            return ix->at[i];
    return NULL;
}

static void put(hr__block_index *ix, hr__block *b)
{
    size_t i = place(ix, b->ptr);
    while (ix->at[i])
        i = (i + 1) & (ix->room - 1);
    ix->at[i] = b;
}

static bool grow(hr__block_index *ix)
{
    hr__block_index more = {.room = ix->room ? ix->room * 2 : 256, .used = ix->used};
    more.at = calloc(more.room, sizeof(hr__block *));
    if (more.at == NULL)
        return false;
    for (size_t i = 0; i < ix->room; i++)
        if (ix->at[i])
            put(&more, ix->at[i]);
    free(ix->at);
    *ix = more;
    return true;
}

bool hr__index_add(hr__block_index *ix, hr__block *b)
{
    if (ix->used * 2 >= ix->room && !grow(ix))
        return false;
    put(ix, b);
    ix->used++;
    return true;
}

void hr__index_fini(hr__block_index *ix)
{
    for (size_t i = 0; i < ix->room; i++)
        free(ix->at[i]);
    free(ix->at);
}
