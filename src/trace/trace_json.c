/* The timeline as Chrome trace events, which Perfetto and chrome://tracing open: a process a rank,
 * a thread a lane, a complete event ("X") a span. Times are printed from whole nanoseconds, so no
 * digit is lost and no locale is asked. */
#include "base/json_text.h" /* hr__json_piece */
#include "base/try.h"       /* HR_TRY */
#include "headrace/trace.h"

#include <inttypes.h>

static void put_text(FILE *to, const char *text)
{
    char piece[HR__JSON_PIECE_BYTES];
    size_t n;
    fputc('"', to);
    while ((n = hr__json_piece(piece, &text)) > 0)
        fwrite(piece, 1, n, to);
    fputc('"', to);
}

static void put_micros(FILE *to, const char *key, int64_t ns)
{
    fprintf(to, ", \"%s\": %" PRId64 ".%03" PRId64, key, ns / 1000, ns % 1000);
}

static const char *kind_word(uint8_t kind)
{
    static const char *const words[] = {"node", "busy", "transfer", "peers"};
    return kind <= HR_SPAN_PEERS ? words[kind] : "other";
}

static const char *dir_word(uint8_t dir)
{
    static const char *const words[] = {"none", "forward", "backward", "wgrad"};
    return dir <= HR_DIR_WGRAD ? words[dir] : "other";
}

static int64_t first_begin(const hr_timeline *t)
{
    int64_t first = INT64_MAX;
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        size_t n;
        const hr_span *spans = hr_lane_spans(hr_timeline_lane_at(t, i), &n);
        for (size_t k = 0; k < n; k++)
            if (spans[k].begin_ns < first)
                first = spans[k].begin_ns;
    }
    return first == INT64_MAX ? 0 : first;
}

static void put_lane_names(FILE *to, const hr_lane *lane, int tid)
{
    int pid = hr_lane_rank(lane);
    fprintf(
        to,
        "%s{\"ph\": \"M\", \"pid\": %d, \"name\": \"process_name\", "
        "\"args\": {\"name\": \"rank %d\"}},\n"
        "{\"ph\": \"M\", \"pid\": %d, \"name\": \"process_sort_index\", "
        "\"args\": {\"sort_index\": %d}},\n"
        "{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"thread_sort_index\", "
        "\"args\": {\"sort_index\": %d}},\n"
        "{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"thread_name\", "
        "\"args\": {\"name\": ",
        tid ? ",\n" : "", pid, pid, pid, pid, pid, tid, tid, pid, tid);
    put_text(to, hr_lane_role(lane));
    fputs("}}", to);
}

static void put_span(FILE *to, const hr_span *span, int pid, int tid, int64_t origin)
{
    int64_t took = span->end_ns > span->begin_ns ? span->end_ns - span->begin_ns : 0;
    fputs(",\n{\"ph\": \"X\", \"name\": ", to);
    put_text(to, span->name ? span->name : "");
    fprintf(to, ", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d", kind_word(span->kind),
            pid, tid);
    put_micros(to, "ts", span->begin_ns - origin);
    put_micros(to, "dur", took);
    fprintf(to, ", \"args\": {\"direction\": \"%s\"", dir_word(span->dir));
    if (span->layer >= 0)
        fprintf(to, ", \"layer\": %d", span->layer);
    if (span->microbatch >= 0)
        fprintf(to, ", \"microbatch\": %d", span->microbatch);
    fputs("}}", to);
}

hr_status hr_timeline_write_json(const hr_timeline *t, const char *path,
                                 const char *note)
{
    hr_file *file;
    HR_TRY(hr_file_begin(path, &file));
    FILE *to = hr_file_stream(file);
    int64_t origin = first_begin(t);
    int lanes = hr_timeline_lanes(t);
    fputs("{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n", to);
    for (int i = 0; i < lanes; i++)
        put_lane_names(to, hr_timeline_lane_at(t, i), i);
    for (int i = 0; i < lanes; i++) {
        const hr_lane *lane = hr_timeline_lane_at(t, i);
        size_t n;
        const hr_span *spans = hr_lane_spans(lane, &n);
        for (size_t k = 0; k < n; k++)
            put_span(to, &spans[k], hr_lane_rank(lane), i, origin);
    }
    fputs("\n],\n\"otherData\": {\"program\": \"headrace\", \"version\": ", to);
    put_text(to, hr_version());
    fprintf(to, ", \"dropped_spans\": \"%zu\"", hr_timeline_dropped(t));
    if (note) {
        fputs(", \"note\": ", to);
        put_text(to, note);
    }
    fputs("}}\n", to);
    return hr_file_commit(file);
}
