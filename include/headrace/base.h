/* headrace/base.h: what every other header needs: status codes, the last error, the log,
 * files that are replaced whole, JSON lines.
 *
 *     hr_status st = hr_stream_synchronize(s);
 *     if (st < 0)
 *         fprintf(stderr, "%s: %s\n", hr_status_name(st), hr_last_error());
 *
 * In the examples of all headers HR_TRY(call) returns the status of a call that failed.
 *
 * Threads: everything here may be called from any thread. The last error and the log's rank
 * belong to the calling thread.
 */
#ifndef HR_BASE_H
#define HR_BASE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
#define HR_BEGIN_C extern "C" {
#define HR_END_C   }
#else
#define HR_BEGIN_C
#define HR_END_C
#endif
#define HR_API          __attribute__((visibility("default")))
#define HR_RESULT       __attribute__((warn_unused_result))
#define HR_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* First field of every public option struct: `&(hr_stream_opts){HR_INIT(hr_stream_opts)}` is
 * a whole configuration of defaults. A struct whose size is not known is ERR_INVALID. */
#define HR_INIT(type) .size = sizeof(type)

#define HR_VERSION_MAJOR 0
#define HR_VERSION_MINOR 1
#define HR_VERSION_PATCH 0

HR_BEGIN_C

/* Zero is done, positive is not an error, negative is one. */
#define HR_STATUS_MAP(X)                                                               \
    X(OK, 0, "done")                                                                   \
    X(PENDING, 1, "not finished yet; ask again")                                       \
    X(ERR_INVALID, -1, "argument outside its documented range")                        \
    X(ERR_NOMEM, -2, "out of memory")                                                  \
    X(ERR_DEVICE, -3, "the device reported an error")                                  \
    X(ERR_ABORTED, -4, "cancelled because another part of the job failed")             \
    X(ERR_STATE, -5, "not allowed in the present state of the object")                 \
    X(ERR_TIMEOUT, -6, "a wait passed its time limit")                                 \
    X(ERR_IO, -7, "reading or writing failed")                                         \
    X(ERR_PARSE, -8, "text or file is not of the expected form")                       \
    X(ERR_UNSUPPORTED, -9, "not built in, or not possible on this machine")            \
    X(ERR_CALLBACK, -10, "a function supplied by the caller failed")                   \
    X(ERR_MISMATCH, -11, "ranks disagree about what they do together")

typedef enum hr_status {
#define X(name, value, text) HR_##name = (value),
    HR_STATUS_MAP(X)
#undef X
} hr_status;

/* "0.1.0" */
HR_API const char *hr_version(void);

HR_API const char *hr_status_name(hr_status st); /* "ERR_INVALID"; "?" if unknown */
HR_API const char *hr_status_text(hr_status st); /* the sentence of the list above */

/* Set this thread's last error and return `st`. For callbacks too: what they say here reaches
 * whoever waits for the failed rank. `reason` is a short tag for programs ("spent",
 * "grad_count"; NULL for none) and is kept by address: pass a literal. */
HR_API hr_status hr_fail(hr_status st, const char *reason, const char *fmt, ...)
    HR_PRINTF(3, 4);

/* So that compilers and analysers see what hr_fail() returns, and do not follow paths on which a
 * failure was none. */
static inline hr_status hr__given(hr_status st, hr_status returned)
{
    (void)returned;
    return st;
}
#define hr_fail(st, ...) hr__given((st), hr_fail((st), __VA_ARGS__))

/* The sentence and the tag of this thread's last failure; "" if there was none. Valid until
 * the thread's next failure. */
HR_API const char *hr_last_error(void);
HR_API const char *hr_last_reason(void);
HR_API void hr_error_clear(void);

typedef enum hr_log_level {
    HR_LOG_ERROR,
    HR_LOG_WARN,
    HR_LOG_INFO,
    HR_LOG_DEBUG
} hr_log_level;

/* Where log lines go: one call a line, without newline, from any thread, one at a time.
 * `rank` is that of the calling thread, -1 for none. What a sink logs itself is dropped. NULL
 * restores the default (standard error, "headrace[rank] level: text"). */
typedef void (*hr_log_sink)(void *ctx, hr_log_level level, int rank, const char *line);
HR_API void hr_log_set_sink(hr_log_sink sink, void *ctx);
HR_API void hr_log_set_level(hr_log_level level); /* default HR_LOG_WARN */
HR_API void hr_log(hr_log_level level, const char *fmt, ...) HR_PRINTF(2, 3);

/* Log only on the thread whose rank is `rank` (Megatron: log_single_rank). */
HR_API void hr_log_single_rank(hr_log_level level, int rank, const char *fmt, ...)
    HR_PRINTF(3, 4);

/* The global rank that this thread speaks for, -1 (the default) for none. */
HR_API void hr_set_thread_rank(int rank);
HR_API int hr_thread_rank(void);

/* A file that appears whole or not at all: written beside `path` under a temporary name, and
 * moved onto it by commit (flush, fsync, rename, fsync of the folder). Begin removes what a writer
 * of the same path left who was killed.
 *
 *     HR_TRY(hr_file_begin("out/loss.svg", &f));
 *     fprintf(hr_file_stream(f), ...);
 *     HR_TRY(hr_file_commit(f));      // or hr_file_discard(f)
 *
 * Owner:  commit and discard both consume `f`, on failure too.
 * Errors: ERR_IO with path and cause (no space, read-only, ...); what was at `path` stays. */
typedef struct hr_file hr_file;
HR_API HR_RESULT hr_status hr_file_begin(const char *path, hr_file **out);
HR_API FILE *hr_file_stream(hr_file *f);
HR_API HR_RESULT hr_status hr_file_commit(hr_file *f);
HR_API void hr_file_discard(hr_file *f);

/* One JSON object, built into the caller's memory, for a line of a log or a metrics file.
 * `init` wants no `fini`. Numbers that are not finite become null. A line that does not fit
 * is reported by `end`: ERR_INVALID, and `text` is then empty.
 *
 *     hr_json j;
 *     char buf[256];
 *     hr_json_begin(&j, buf, sizeof buf);
 *     hr_json_int(&j, "step", 12);
 *     hr_json_real(&j, "loss", 2.25);
 *     HR_TRY(hr_json_end(&j));
 *     puts(buf);                       // {"step": 12, "loss": 2.25}
 */
typedef struct hr_json {
    char *buf;
    size_t cap, len;
    int overflow;
} hr_json;
HR_API void hr_json_begin(hr_json *j, char *buf, size_t cap);
HR_API void hr_json_int(hr_json *j, const char *key, long long value);
/* The shortest text that reads back as the same number. */
HR_API void hr_json_real(hr_json *j, const char *key, double value);
HR_API void hr_json_bool(hr_json *j, const char *key, bool value);
HR_API void hr_json_text(hr_json *j, const char *key, const char *value);
HR_API HR_RESULT hr_status hr_json_end(hr_json *j);

/* Monotonic time in nanoseconds; the clock of all spans and deadlines. */
HR_API int64_t hr_now_ns(void);

HR_END_C
#endif
