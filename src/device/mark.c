/* Marks: what the calling thread launches belongs to a node of the schedule. A launch carries
 * the mark in its slot of the queue, so a node costs no launch of its own; the backend makes
 * a span of it when a timeline is attached. */
#include "device/device_ops.h"

enum { MAX_DEPTH = 16 }; /* nodes do not nest; deeper marks are counted and not kept */

struct open_mark {
    hr_stream *stream;
    uint64_t node;
    hr_mark mark;
};

static _Thread_local struct open_mark open_marks[MAX_DEPTH];
static _Thread_local int depth;
static _Thread_local int default_layer = -1, default_microbatch = -1;

void hr_mark_set(int layer, int microbatch)
{
    default_layer = layer;
    default_microbatch = microbatch;
}

void hr_mark_get(int *layer, int *microbatch)
{
    if (layer)
        *layer = default_layer;
    if (microbatch)
        *microbatch = default_microbatch;
}

void hr_span_begin(hr_stream *s, const hr_mark *m)
{
    if (depth++ >= MAX_DEPTH)
        return;
    struct open_mark *o = &open_marks[depth - 1];
    o->stream = s;
    o->node = s ? ++s->dev->nodes : 0;
    o->mark = m ? *m : (hr_mark){NULL, -1, -1, HR_DIR_NONE};
    if (o->mark.name == NULL) /* which would say that no mark is open */
        o->mark.name = "node";
    if (o->mark.layer == -1)
        o->mark.layer = default_layer;
    if (o->mark.microbatch == -1)
        o->mark.microbatch = default_microbatch;
}

void hr_span_end(hr_stream *s)
{
    if (depth > 0)
        depth--;
}

static int kept_depth(void)
{
    return depth < MAX_DEPTH ? depth : MAX_DEPTH;
}

void hr__mark_fill(hr_stream *s, hr__launch *l)
{
    int n = kept_depth();
    if (n == 0) {
        l->mark = (hr_mark){NULL, default_layer, default_microbatch, HR_DIR_NONE};
        return;
    }
    l->mark = open_marks[n - 1].mark;
    for (int i = n - 1; i >= 0; i--) {
        if (open_marks[i].stream == s) {
            l->mark = open_marks[i].mark;
            l->node = open_marks[i].node;
            return;
        }
    }
}

bool hr__mark_recent(const hr_stream *s, hr_mark *m)
{
    int n = kept_depth();
    *m =
        open_marks[n > 0 ? n - 1 : 0].mark; /* of the last to end, where none is open */
    for (int i = n - 1; i >= 0; i--) {
        if (open_marks[i].stream == s) {
            *m = open_marks[i].mark;
            break;
        }
    }
    return n > 0;
}

bool hr__mark_is_open(const hr_stream *s, uint64_t node)
{
    for (int i = kept_depth() - 1; i >= 0; i--)
        if (open_marks[i].stream == s && open_marks[i].node == node)
            return true;
    return false;
}
