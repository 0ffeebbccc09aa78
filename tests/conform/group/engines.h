/* The engines of groups, and what their tests share. A rank's function reports what it finds as
 * a status, with CHECK and EXPECT; the main thread asserts on the outcome of the job. */
#ifndef HR_TEST_ENGINES_H
#define HR_TEST_ENGINES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/group_mpi.h"

typedef struct engine {
    const char *name;
    bool buffers;    /* a send may end without its receive */
    double delay_us; /* hr_local_opts, short enough for many operations */
    bool
        processes; /* a rank is a process: only as many ranks as there are, no memory in common */
    bool nccl; /* reduces in its own way, and needs GPUs */
} engine;

/* Those of one process; the one of many where a launcher has started this program; NCCL over ranks that are threads
 * where HEADRACE_TEST_GROUPS says "nccl". */
extern const engine *engines;
extern int n_engines;

/* It has that many ranks, or may. */
bool runs(const engine *e, int n);

/* Run fn on n ranks over the engine; `o` may be NULL. OK where the engine has another number of ranks. */
hr_status run_on(const engine *e, int n, const hr_local_opts *o, hr_rank_fn fn,
                 void *arg);

/* The ranks of this test meet in memory, or want a link that is imitated. */
void skip_across_processes(void);
/* There is no link that is imitated, reductions are not ours, or a world takes a while to be made. */
void skip_over_nccl(void);

/* fn succeeds on every engine, plain and with launch_blocking, for these numbers of ranks. */
void succeeds(const int *sizes, int n_sizes, hr_rank_fn fn, void *arg);
void succeeds_everywhere(hr_rank_fn fn, void *arg); /* 1, 2, 3, 4, 8 */

/* fn fails on every engine with `st`, and a sentence that holds all of `words` (ends in NULL). */
void fails(int n, const hr_local_opts *o, hr_rank_fn fn, void *arg, hr_status st,
           const char *const *words);
/* The same where a send waits for its receive. */
void fails_unbuffered(int n, const hr_local_opts *o, hr_rank_fn fn, void *arg,
                      hr_status st, const char *const *words);
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* "" or what is wrong with the sentence of an expected failure: for use on ranks. */
hr_status expect(hr_status got, hr_status wanted, const char *word, int line);

#define CHECK(cond)                                                                    \
    do {                                                                               \
        if (!(cond))                                                                   \
            return hr_fail(HR_ERR_CALLBACK, "check", "line %d: not %s", __LINE__,      \
                           #cond);                                                     \
    } while (0)
#define TRY(expr)                                                                      \
    do {                                                                               \
        hr_status st_ = (expr);                                                        \
        if (st_ < 0)                                                                   \
            return st_;                                                                \
    } while (0)
/* The call fails with `st`, and its sentence holds `word`. */
#define EXPECT(expr, st, word) TRY(expect((expr), (st), (word), __LINE__))

/* The same numbers on every rank, from a counter. */
uint32_t number(uint32_t seed, uint32_t i);

#endif
