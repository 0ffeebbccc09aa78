/* Writes down what the library does, in the words of the recorded traces: names for tensors,
 * streams and events, and one JSON array a record.
 *
 * Every named tensor is retained until the case ends, so that an address stands for one tensor.
 */
#ifndef RECORD_H
#define RECORD_H
#include "headrace/plan.h"
#include <jansson.h>

enum { REC_NAMES = 4096, REC_NAME = 80, REC_THINGS = 32 };

typedef struct rec_tensor {
    hr_tensor *t;
    char name[REC_NAME];
} rec_tensor;

typedef struct rec_owner {
    const hr_storage *p;
    char name[REC_NAME]; /* of the tensor that had it first */
} rec_owner;

typedef struct rec_thing {
    const void *p;
    char name[32];
} rec_thing;

typedef struct rec {
    hr_device *dev;
    json_t *trace; /* NULL: not recording */
    bool plan;     /* plan files leave out what belongs to single nodes */
    int n_tensors, n_streams, n_events, n_owners;
    int new_streams;
    rec_tensor tensor[REC_NAMES];
    rec_thing stream[REC_THINGS], event[REC_THINGS];
    rec_owner owner[REC_NAMES];
} rec;

/* A device with the compute stream "comp"; probes on. Exits the program if it cannot. */
void rec_open(rec *r, bool plan);
void rec_close(rec *r);

void rec_start(rec *r);   /* an empty trace */
json_t *rec_stop(rec *r); /* the trace; the caller's */

/* Write [a, b, ...]: as json_pack() takes it. Nothing while not recording. */
void rec_add(rec *r, const char *fmt, ...);

/* Name `t` and retain it. A name that is taken gets "#2" and so on. Returns the name. */
const char *rec_name(rec *r, hr_tensor *t, const char *name);
/* Of any tensor, gradients ("d(x)") included; "?" if it has none; json null for NULL. */
json_t *rec_json(rec *r, hr_tensor *t);
hr_tensor *rec_find(rec *r, const char *name); /* the latest; NULL */

hr_stream *rec_stream(rec *r, const char *name); /* made if need be; "comp" is there */
hr_event *rec_event(rec *r, const char *name);   /* made if need be */
void rec_event_is(rec *r, hr_event *e,
                  const char *name); /* one that the library made */
json_t *rec_stream_json(rec *r, const hr_stream *s);
const char *rec_current(rec *r); /* name of the current stream */

/* A tensor [2,3] that requires grad or not, named, zeroed; borrowed. */
hr_tensor *rec_tensor_make(rec *r, const char *name, bool requires_grad);

/* Wait until nothing runs. The recorded situations need not order their streams; what we make for
 * them, and one step after the other, we do. */
void rec_settle(rec *r);

/* Say what failed and exit: for what only a broken library or machine can cause. */
void rec_need(hr_status st, const char *what);

#endif
