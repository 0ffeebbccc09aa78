/* The log: lines to one replaceable sink, one at a time. Nothing else in the library prints. */
#include "headrace/base.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

enum { LINE_BYTES = 1024 };

static void sink_to_stderr(void *ctx, hr_log_level level, int rank, const char *line);

static struct {
    pthread_mutex_t mu; /* held while the sink runs: one line at a time */
    hr_log_sink sink;   /* mu */
    void *ctx;          /* mu */
    atomic_int level;
} log_state = {PTHREAD_MUTEX_INITIALIZER, sink_to_stderr, NULL, HR_LOG_WARN};

static _Thread_local int thread_rank = -1;
static _Thread_local bool in_sink;

static void sink_to_stderr(void *ctx, hr_log_level level, int rank, const char *line)
{
    static const char *const words[] = {"error", "warning", "info", "debug"};
    if (rank >= 0)
        fprintf(stderr, "headrace[%d] %s: %s\n", rank, words[level], line);
    else
        fprintf(stderr, "headrace %s: %s\n", words[level], line);
}

void hr_log_set_sink(hr_log_sink sink, void *ctx)
{
    if (in_sink) /* the lock is ours, and a sink that replaces itself is a mistake */
        return;
    pthread_mutex_lock(&log_state.mu);
    log_state.sink = sink ? sink : sink_to_stderr;
    log_state.ctx = sink ? ctx : NULL;
    pthread_mutex_unlock(&log_state.mu);
}

void hr_log_set_level(hr_log_level level)
{
    atomic_store_explicit(&log_state.level, (int)level, memory_order_relaxed);
}

static bool wanted(hr_log_level level)
{
    int limit = atomic_load_explicit(&log_state.level, memory_order_relaxed);
    return level >= HR_LOG_ERROR && level <= HR_LOG_DEBUG && (int)level <= limit;
}

/* What a sink logs itself is dropped: it would wait for its own lock, or never end. */
static void log_line(hr_log_level level, const char *fmt, va_list args) HR_PRINTF(2, 0);
static void log_line(hr_log_level level, const char *fmt, va_list args)
{
    if (in_sink)
        return;
    char line[LINE_BYTES];
    int n = vsnprintf(line, sizeof line, fmt, args);
    if (n < 0)
        return;
    if ((size_t)n >= sizeof line)
        memcpy(line + sizeof line - 4, "...", 4);
    for (char *c = line; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    pthread_mutex_lock(&log_state.mu);
    in_sink = true;
    log_state.sink(log_state.ctx, level, thread_rank, line);
    in_sink = false;
    pthread_mutex_unlock(&log_state.mu);
}

void hr_log(hr_log_level level, const char *fmt, ...)
{
    if (!wanted(level))
        return;
    va_list args;
    va_start(args, fmt);
    log_line(level, fmt, args);
    va_end(args);
}

void hr_log_single_rank(hr_log_level level, int rank, const char *fmt, ...)
{
    if (thread_rank != rank || !wanted(level))
        return;
    va_list args;
    va_start(args, fmt);
    log_line(level, fmt, args);
    va_end(args);
}

void hr_set_thread_rank(int rank)
{
    thread_rank = rank < 0 ? -1 : rank;
}

int hr_thread_rank(void)
{
    return thread_rank;
}
