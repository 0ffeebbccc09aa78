/* Per-thread free lists by size; see pool.h. */
#include "tensor/pool.h"
#include "base/recycling.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if !HR__RECYCLING

void *hr__pool_get(size_t bytes)
{
    return calloc(1, bytes ? bytes : 1);
}

void hr__pool_put(void *block, size_t bytes)
{
    free(block);
}

size_t hr__pool_idle(void)
{
    return 0;
}

#else

enum {
    GRAIN = 64,      /* classes are multiples of it */
    CLASSES = 16,    /* larger blocks: see `large` */
    MAX_IDLE = 1024, /* blocks a class and thread: the graph of a large chunk */
    LARGE = 16,      /* blocks a thread: the plans of a few kinds of chunks */
    LARGE_MAX = 1 << 20,
};

struct idle {
    struct idle *next;
};

static _Thread_local struct {
    struct idle *head[CLASSES];
    unsigned short count[CLASSES];
    bool registered;
} cache;

/* Larger ones are for those who ask for the same size again. */
static _Thread_local struct {
    void *block; /* NULL: a free place */
    size_t bytes;
} large[LARGE];

static pthread_key_t exit_key;
static int exit_key_made; /* written once, under exit_once */
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void flush(void *unused)
{
    for (int c = 0; c < CLASSES; c++) {
        while (cache.head[c]) {
            struct idle *b = cache.head[c];
            cache.head[c] = b->next;
            free(b);
        }
        cache.count[c] = 0;
    }
    for (int i = 0; i < LARGE; i++) {
        free(large[i].block);
        large[i].block = NULL;
    }
    /* A later destructor of this thread may put more: then it registers again. */
    cache.registered = false;
}

static void make_key(void)
{
    exit_key_made = pthread_key_create(&exit_key, flush) == 0;
}

/* Thread keys have no destructor call on the thread that leaves main(). */
__attribute__((destructor)) static void flush_last_thread(void)
{
    flush(NULL);
}

static size_t class_of(size_t bytes)
{
    return bytes ? (bytes - 1) / GRAIN : 0;
}

static void *get_large(size_t bytes)
{
    for (int i = 0; i < LARGE; i++) {
        void *block = large[i].block;
        if (block && large[i].bytes == bytes) {
            large[i].block = NULL;
            return memset(block, 0, bytes);
        }
    }
    return calloc(1, bytes);
}

/* Where all places are taken the oldest goes, so that sizes nobody asks for any more do not stay. */
static void put_large(void *block, size_t bytes)
{
    static _Thread_local unsigned oldest;
    int at = 0;
    if (bytes > LARGE_MAX) {
        free(block);
        return;
    }
    while (at < LARGE && large[at].block)
        at++;
    if (at == LARGE) {
        at = (int)(oldest++ % LARGE);
        free(large[at].block);
    }
    large[at].block = block;
    large[at].bytes = bytes;
}

/* Someone frees what is idle here when the thread ends; if not, nothing may be. */
static bool registered(void)
{
    if (!cache.registered) {
        pthread_once(&exit_once, make_key);
        cache.registered = exit_key_made && pthread_setspecific(exit_key, &cache) == 0;
    }
    return cache.registered;
}

void *hr__pool_get(size_t bytes)
{
    size_t c = class_of(bytes);
    if (c >= CLASSES)
        return get_large(bytes);
    struct idle *b = cache.head[c];
    if (!b)
        return calloc(c + 1, GRAIN);
    cache.head[c] = b->next;
    cache.count[c]--;
    return memset(b, 0, bytes);
}

void hr__pool_put(void *block, size_t bytes)
{
    size_t c = class_of(bytes);
    if (!block)
        return;
    if (!registered() || (c < CLASSES && cache.count[c] >= MAX_IDLE)) {
        free(block);
        return;
    }
    if (c >= CLASSES) {
        put_large(block, bytes);
        return;
    }
    struct idle *b = block;
    b->next = cache.head[c];
    cache.head[c] = b;
    cache.count[c]++;
}

size_t hr__pool_idle(void)
{
    size_t n = 0;
    for (int c = 0; c < CLASSES; c++)
        n += cache.count[c];
    for (int i = 0; i < LARGE; i++)
        n += large[i].block != NULL;
    return n;
}

#endif
