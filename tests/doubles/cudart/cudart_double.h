/* A test double of the CUDA runtime: the functions of device/cuda/cudart.h over threads, a thread a
 * stream. It keeps CUDA's rules where ours depend on them: a wait binds to the record that is current at
 * the call, handles are checked, host functions may not call CUDA and are skipped once the context
 * has died, fills want CUDA's memory. It proves that our calls are right by these rules, and nothing about
 * NVIDIA's runtime. Headrace loads it by HEADRACE_CUDART=path; what is below is for tests, by dlsym.
 *
 * Environment:
 *   HEADRACE_DOUBLE_DEVICES=n     how many GPUs there are; 1 (-1: none, without an error)
 *   HEADRACE_DOUBLE_PLAIN=1       they have neither pools of memory nor managed memory
 *   HEADRACE_DOUBLE_HIDDEN=1      the host cannot touch memory of the device while no work of the GPU runs;
 *                                 on hardware it never can
 *   HEADRACE_DOUBLE_ONE_THREAD=1  host functions of all streams take turns, as on a driver that has one thread
 *                                 for them; those that wait for each other then hang
 *   HEADRACE_DOUBLE_FAIL=n:code   from its loading on the n-th call fails with that code
 *   HEADRACE_DOUBLE_REPORT=1      when loaded with it: at exit a line on standard error: calls, and what still lives
 */
#ifndef HR_CUDART_DOUBLE_H
#define HR_CUDART_DOUBLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct double_live {
    long streams, events, pools, blocks;
    size_t bytes;
} double_live;

/* What it calls itself; the real runtime has no such symbol. */
extern const char headrace_cudart_double[];

/* Calls so far, of all threads; names and texts of errors do not count. */
long headrace_double_calls(void);
/* The nth call from here on fails with `code` (n 0: none does). Codes of a dead context (700 and its like)
 * stay, for all calls, until headrace_double_revive(). */
void headrace_double_fail(long n, int code);
void headrace_double_revive(void);
/* Has the failure that was asked for happened? */
bool headrace_double_failed(void);

void headrace_double_count(double_live *out);
/* An attribute (enum cudaMemPoolAttr) of the pool that was made last; -1: not set. */
int64_t headrace_double_pool_attribute(int which);
/* For other doubles: `fn` runs as work of the GPU in the order of the stream (a cudaStream_t), and reaches
 * memory of the device; a cudaError_t. Where it waits for others it may say that it touches none meanwhile
 * by gpu_works(false), then gpu_works(true). */
int headrace_double_gpu_work(void *stream, void (*fn)(void *arg), void *arg);
void headrace_double_gpu_works(bool begins);
/* The same; once the context has died `drop` takes its place, which frees `arg`. */
int headrace_double_gpu_job(void *stream, void (*fn)(void *arg),
                            void (*drop)(void *arg), void *arg);
/* For doubles of libraries that stand on the runtime: their calls count as its own, and are the n-th to fail likewise:
 * a cudaError_t. */
int headrace_double_enter(void);
int headrace_double_device(void); /* current in the calling thread */
int headrace_double_deaths(void); /* how many contexts have died: their work ends */
/* Memory of the device; NULL: none. Has CUDA given all of these bytes? */
void *headrace_double_alloc(size_t bytes);
bool headrace_double_free(void *p);
bool headrace_double_reaches(const void *p, size_t bytes);
/* Flags and priority of the stream or event that was made last. */
int headrace_double_last_priority(void);
unsigned headrace_double_last_event_flags(void);

#endif
