/* The imitated link, and the spans of a transfer. */
#ifndef HR_LOCAL_LINK_H
#define HR_LOCAL_LINK_H
#include "group/local/local_channel.h"

typedef struct hr__transfer {
    const char *op;
    int64_t arrived_ns; /* this rank */
    int64_t last_ns;    /* the last member */
    int64_t bytes;      /* the more of those out and in, from and to other ranks */
} hr__transfer;

/* Let the transfer take as long as the link would, without using a core, and add its spans to
 * the lane of the stream. Wakes when the job fails: its cause. */
hr_status hr__transfer_end(hr__member *m, const hr__transfer *t);

#endif
