/* Memory: blocks are known, so that fills and copies can be checked. A block of the device may be hidden: at
 * its address it can be touched only while work of the GPU runs; copies and fills go to its bytes elsewhere. */
#include "double_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum block_kind { DEVICE, MANAGED, PINNED } block_kind;

typedef struct block {
    struct block *next;
    char *base, *bytes_at;
    size_t bytes;
    block_kind kind;
    int file; /* of a hidden block; -1 */
} block;

struct CUmemPoolHandle_st {
    handle handle;
};

static pthread_mutex_t blocks_mu = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;                  /* blocks_mu */
static _Atomic int64_t attributes[16]; /* of the last pool */

int64_t headrace_double_pool_attribute(int which)
{
    return which > 0 && which < 16 ? atomic_load(&attributes[which]) : -1;
}

/* ---- pools ------------------------------------------------------------------------------------------- */
cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const struct cudaMemPoolProps *props)
{
    ENTER();
    if (props->allocType != cudaMemAllocationTypePinned ||
        props->location.type != cudaMemLocationTypeDevice)
        return double_end(cudaErrorInvalidValue);
    cudaMemPool_t pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return double_end(cudaErrorMemoryAllocation);
    for (int i = 0; i < 16; i++)
        atomic_store(&attributes[i], -1);
    double_register(&pool->handle, POOL);
    *out = pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    cudaError_t e = double_enter();
    if (!double_knows(pool, POOL))
        return double_end(cudaErrorInvalidResourceHandle);
    double_forget(&pool->handle);
    free(pool);
    return e;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which,
                                    void *value)
{
    ENTER();
    if (!double_knows(pool, POOL) || (int)which < 1 || (int)which > 15)
        return double_end(cudaErrorInvalidValue);
    bool wide = which == cudaMemPoolAttrReleaseThreshold;
    atomic_store(&attributes[which],
                 wide ? (int64_t)(*(uint64_t *)value >> 1) : *(int *)value);
    return cudaSuccess;
}

/* ---- blocks ------------------------------------------------------------------------------------------ */
static char *map(size_t bytes, int protection, int file)
{
    void *p = mmap(NULL, bytes, protection,
                   file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Two views of the same bytes, one of which is for the GPU. */
static bool map_hidden(block *b)
{
    b->file = memfd_create("cudart_double", MFD_CLOEXEC);
    if (b->file < 0 || ftruncate(b->file, (off_t)b->bytes) != 0)
        return false;
    b->bytes_at = map(b->bytes, PROT_READ | PROT_WRITE, b->file);
    b->base = map(b->bytes, PROT_NONE, b->file);
    return b->bytes_at && b->base;
}

/* Read: bytes are being touched. Write: some go. */
static pthread_rwlock_t touch_lock = PTHREAD_RWLOCK_INITIALIZER;

bool double_touch_begin(const work *w)
{
    pthread_rwlock_rdlock(&touch_lock);
    if (w->deaths == double_deaths())
        return true;
    pthread_rwlock_unlock(&touch_lock);
    return false;
}

void double_touch_end(void)
{
    pthread_rwlock_unlock(&touch_lock);
}

static void unmap(block *b)
{
    pthread_rwlock_wrlock(&touch_lock);
    if (b->base)
        munmap(b->base, b->bytes);
    if (b->bytes_at && b->bytes_at != b->base)
        munmap(b->bytes_at, b->bytes);
    if (b->file >= 0)
        close(b->file);
    pthread_rwlock_unlock(&touch_lock);
    free(b);
}

static int gpu_works; /* blocks_mu; how much work of the GPU runs */

static void protect(const block *b, int protection)
{
    if (b->file >= 0 && mprotect(b->base, b->bytes, protection) != 0)
        abort();
}

void headrace_double_gpu_works(bool begins)
{
    pthread_mutex_lock(&blocks_mu);
    bool edge = gpu_works == (begins ? 0 : 1);
    gpu_works += begins ? 1 : -1;
    for (block *b = edge ? blocks : NULL; b; b = b->next)
        protect(b, begins ? PROT_READ | PROT_WRITE : PROT_NONE);
    pthread_mutex_unlock(&blocks_mu);
}

static bool map_block(block *b)
{
    b->file = -1;
    if (b->kind == DEVICE && getenv("HEADRACE_DOUBLE_HIDDEN"))
        return map_hidden(b);
    b->base = b->bytes_at = map(b->bytes, PROT_READ | PROT_WRITE, -1);
    return b->base != NULL;
}

static cudaError_t add(block_kind kind, size_t bytes, void **out)
{
    block *b = bytes ? calloc(1, sizeof *b) : NULL;
    if (b == NULL)
        return bytes ? cudaErrorMemoryAllocation : cudaErrorInvalidValue;
    b->kind = kind;
    b->bytes = bytes;
    if (!map_block(b)) {
        unmap(b);
        return cudaErrorMemoryAllocation;
    }
    *out = b->base;
    pthread_mutex_lock(&blocks_mu);
    b->next = blocks;
    blocks = b;
    if (gpu_works > 0)
        protect(b, PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&blocks_mu);
    return cudaSuccess;
}

static cudaError_t give_back(void *p, block_kind kind)
{
    block *b = NULL;
    pthread_mutex_lock(&blocks_mu);
    for (block **at = &blocks; *at; at = &(*at)->next) {
        if ((*at)->base == p && (*at)->kind == kind) {
            b = *at;
            *at = b->next;
            break;
        }
    }
    pthread_mutex_unlock(&blocks_mu);
    if (b == NULL)
        return cudaErrorInvalidValue;
    unmap(b);
    return cudaSuccess;
}

void *double_bytes(const void *p, size_t bytes, bool *known)
{
    const char *at = p;
    void *found = (void *)(uintptr_t)p;
    *known = false;
    pthread_mutex_lock(&blocks_mu);
    for (block *b = blocks; b && !*known; b = b->next) {
        if (at < b->base || at >= b->base + b->bytes)
            continue;
        *known = true;
        size_t offset = (size_t)(at - b->base);
        found = bytes <= b->bytes - offset ? b->bytes_at + offset : NULL;
    }
    pthread_mutex_unlock(&blocks_mu);
    return found;
}

void double_blocks(long *n, size_t *bytes)
{
    *n = 0;
    *bytes = 0;
    pthread_mutex_lock(&blocks_mu);
    for (block *b = blocks; b; b = b->next) {
        *n += 1;
        *bytes += b->bytes;
    }
    pthread_mutex_unlock(&blocks_mu);
}

cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t s)
{
    ENTER();
    if (!double_knows(pool, POOL) || !double_stream(s))
        return double_end(cudaErrorInvalidResourceHandle);
    return double_end(add(DEVICE, bytes, out));
}

static void run_free(work *w)
{
    (void)give_back(w->block, DEVICE);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
    cudaError_t e = double_enter();
    bool known;
    cudaStream_t s = double_stream(stream);
    if (s == NULL || !double_bytes(p, 1, &known) || !known)
        return double_end(cudaErrorInvalidValue);
    cudaError_t put = double_put(s, &(work){.run = run_free, .block = p});
    return double_end(e ? e : put);
}

cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
    ENTER();
    if (flags != cudaMemAttachGlobal)
        return double_end(cudaErrorInvalidValue);
    return double_end(add(MANAGED, bytes, out));
}

static cudaError_t end_free(cudaError_t asked_for, cudaError_t found)
{
    return double_end(asked_for ? asked_for : found);
}

cudaError_t cudaFree(void *p)
{
    return end_free(double_enter(), p ? give_back(p, MANAGED) : cudaSuccess);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    ENTER();
    return double_end(add(PINNED, bytes, out));
}

cudaError_t cudaFreeHost(void *p)
{
    return end_free(double_enter(), give_back(p, PINNED));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p)
{
    ENTER();
    static const enum cudaMemoryType types[] = {[DEVICE] = cudaMemoryTypeDevice,
                                                [MANAGED] = cudaMemoryTypeManaged,
                                                [PINNED] = cudaMemoryTypeHost};
    const char *at = p;
    memset(out, 0, sizeof *out);
    out->type = cudaMemoryTypeUnregistered;
    pthread_mutex_lock(&blocks_mu);
    for (const block *b = blocks; b; b = b->next)
        if (at >= b->base && at < b->base + b->bytes)
            out->type = types[b->kind];
    pthread_mutex_unlock(&blocks_mu);
    return cudaSuccess;
}

void *headrace_double_alloc(size_t bytes)
{
    void *p = NULL;
    return add(DEVICE, bytes, &p) == cudaSuccess ? p : NULL;
}

bool headrace_double_free(void *p)
{
    return give_back(p, DEVICE) == cudaSuccess;
}

bool headrace_double_reaches(const void *p, size_t bytes)
{
    bool known;
    return double_bytes(p, bytes, &known) != NULL && known;
}
