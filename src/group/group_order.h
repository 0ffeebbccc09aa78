/* One operation of a group after the other. A group may move from stream to stream, but what is
 * issued on the new one has to be ordered after what was issued on the old. Found by the
 * clocks of the streams, that is, from issue order alone. */
#ifndef HR_GROUP_ORDER_H
#define HR_GROUP_ORDER_H
#include "headrace/group.h"

/* Where the last operation was issued; all zero before the first. */
typedef struct hr__order {
    int stream_id;
    uint64_t position;
    char stream_name[32];
} hr__order;

/* ERR_STATE "group_streams" if nothing orders `s` after the last operation. */
hr_status hr__order_check(const hr__order *o, const hr_stream *s, const char *what);
/* The operation was queued on `s` just now. */
void hr__order_note(hr__order *o, const hr_stream *s);
/* Called by work that runs on `s`: somebody waits for the stream to get past it. False where the
 * backend cannot tell. */
bool hr__order_is_awaited(const hr_stream *s);
/* Wait until the last operation has run. */
void hr__order_drain(const hr__order *o, hr_device *dev);

/* The stream checker is on for the device. */
bool hr__order_is_checked(const hr_device *dev);

/* Work that the calling thread issues on a stream, as the checker's sentences call it. */
typedef struct hr__work {
    int stream;   /* its id */
    bool in_node; /* `mark` is of a node that is open */
    hr_mark mark;
    char text[192];
} hr__work;
void hr__order_describe(const hr_stream *s, hr__work *out);

/* What an operation that is issued on `s` now is for: as its group was told, or the node that is open. */
hr_op_label hr__order_label(const hr_stream *s, const hr_op_label *given);

#endif
