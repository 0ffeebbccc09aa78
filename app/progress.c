/* The bar and the lines. What is shown of a step is the same in both; only how often differs. */
#include "progress.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    LINE = 512,
    REDRAW_MS = 100, /* a bar */
    LINE_MS = 5000   /* a plain line */
};

struct progress {
    FILE *to;
    int64_t first, steps;
    bool terminal;
    int columns; /* fixed by the caller; 0: ask each time */
    int64_t (*now_ns)(void);
    int64_t begin_ns, drawn_ns;
    int tenth; /* of the steps, last told in a line */
    bool on_bar;
};

hr_status hr_app_progress_create(const progress_opts *opts, progress **out)
{
    *out = NULL;
    if (opts->steps < 1 || opts->first < 0)
        return hr_fail(HR_ERR_INVALID, "progress", "progress over %lld steps from %lld",
                       (long long)opts->steps, (long long)opts->first);
    progress *p = calloc(1, sizeof *p);
    if (!p)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the progress bar");
    p->to = opts->to ? opts->to : stderr;
    p->first = opts->first;
    p->steps = opts->steps;
    p->columns = opts->columns;
    p->now_ns = opts->now_ns ? opts->now_ns : hr_now_ns;
    p->terminal = opts->terminal < 0 ? isatty(fileno(p->to)) == 1 : opts->terminal > 0;
    p->begin_ns = p->now_ns();
    p->drawn_ns = INT64_MIN;
    p->tenth = -1;
    *out = p;
    return HR_OK;
}

static int columns(const progress *p)
{
    struct winsize size;
    if (p->columns > 0)
        return p->columns;
    bool known = ioctl(fileno(p->to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
}

/* "42 s", "3:07", "1:02:09" */
static void put_time(double seconds, char *out, size_t room)
{
    long s = seconds > 0 && seconds < 1e7 ? (long)(seconds + 0.5) : 0;
    if (s < 60)
        snprintf(out, room, "%ld s", s);
    else if (s < 3600)
        snprintf(out, room, "%ld:%02ld", s / 60, s % 60);
    else
        snprintf(out, room, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

static void describe(const progress *p, const progress_tick *t, char *out, size_t room)
{
    char left[32], hidden[32] = "";
    double seconds = t->time_left_s;
    int64_t done = t->step - p->first;
    if (seconds < 0)
        seconds = done > 0 ? (double)(p->now_ns() - p->begin_ns) * 1e-9 / (double)done *
                                 (double)(p->steps - t->step)
                           : 0;
    put_time(seconds, left, sizeof left);
    if (t->comm_hidden >= 0)
        snprintf(hidden, sizeof hidden, "  hidden %3.0f%%", 100 * t->comm_hidden);
    snprintf(out, room, "step %lld/%lld  loss %.3f  %.0f tok/s%s  left %s",
             (long long)t->step, (long long)p->steps, t->loss, t->tokens_per_s, hidden,
             left);
}

/* The filled part of a bar in eighths of a character. */
static void put_bar(double part, int width, char *out, size_t room)
{
    static const char *const eighth[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int filled = (int)(part * width * 8);
    size_t at = 0;
    int cells = 0;
    for (; cells < filled / 8 && at + 4 < room; cells++)
        at += (size_t)snprintf(out + at, room - at, "█");
    if (filled % 8 && cells < width && at + 4 < room) {
        at += (size_t)snprintf(out + at, room - at, "%s", eighth[filled % 8]);
        cells++;
    }
    snprintf(out + at, room - at, "%*s", width - cells, "");
}

static void draw_bar(progress *p, const progress_tick *t)
{
    char text[LINE], bar[LINE];
    describe(p, t, text, sizeof text);
    int room = columns(p) - (int)strlen(text) - 4;
    int width = room > 40 ? 40 : room;
    put_bar((double)t->step / (double)p->steps, width < 1 ? 1 : width, bar, sizeof bar);
    if (width < 4)
        fprintf(p->to, "\r\x1b[K%.*s", columns(p) - 1, text);
    else
        fprintf(p->to, "\r\x1b[K▕%s▏ %s", bar, text);
    fflush(p->to);
    p->on_bar = true;
}

void hr_app_progress_step(progress *p, const progress_tick *t)
{
    int64_t now = p->now_ns();
    bool last = t->step >= p->steps;
    int tenth = (int)(t->step * 10 / p->steps);
    int64_t pause = (p->terminal ? REDRAW_MS : LINE_MS) * INT64_C(1000000);
    bool due = last || p->drawn_ns == INT64_MIN || now - p->drawn_ns >= pause;
    if (!p->terminal && tenth != p->tenth)
        due = true;
    if (!due)
        return;
    p->drawn_ns = now;
    p->tenth = tenth;
    if (p->terminal) {
        draw_bar(p, t);
        return;
    }
    char text[LINE];
    describe(p, t, text, sizeof text);
    fprintf(p->to, "%s\n", text);
    fflush(p->to);
}

void hr_app_progress_note(progress *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (p->on_bar)
        fputs("\r\x1b[K", p->to);
    vfprintf(p->to, fmt, args);
    fputc('\n', p->to);
    fflush(p->to);
    p->on_bar = false;
    p->drawn_ns =
        p->terminal ? INT64_MIN : p->drawn_ns; /* the bar comes back at once */
    va_end(args);
}

void hr_app_progress_destroy(progress *p)
{
    if (!p)
        return;
    if (p->on_bar)
        fputc('\n', p->to);
    fflush(p->to);
    free(p);
}
