/* Per-thread free lists by size; see pool.h. */
#include "tensor/pool.h"
#include "base/hot_tls.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POOL_BYPASS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define POOL_BYPASS 1
#endif
#endif

#ifdef POOL_BYPASS

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
    CLASSES = 16,    /* larger blocks are malloc's */
    MAX_IDLE = 1024, /* blocks a class and thread: the graph of a large chunk */
};

struct idle {
    struct idle *next;
};

static _Thread_local struct {
    struct idle *head[CLASSES];
    unsigned short count[CLASSES];
    bool registered;
} cache HR__HOT_TLS;

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

void *hr__pool_get(size_t bytes)
{
    size_t c = class_of(bytes);
    if (c >= CLASSES)
        return calloc(1, bytes);
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
    if (c >= CLASSES || cache.count[c] >= MAX_IDLE) {
        free(block);
        return;
    }
    if (!cache.registered) {
        pthread_once(&exit_once, make_key);
        cache.registered = exit_key_made && pthread_setspecific(exit_key, &cache) == 0;
    }
    if (!cache.registered) { /* out of thread keys: keep nothing that could leak */
        free(block);
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
    return n;
}

#endif
