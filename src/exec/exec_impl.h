/* What an executor and its programs are made of. Internal to src/exec.
 *
 * A program is the order of one rank, laid out once: where each tensor stands between the action
 * that makes it and the last that needs it (a cell), and which event says that a transfer has run.
 * A step walks it and looks nothing up. */
#ifndef HR_EXEC_IMPL_H
#define HR_EXEC_IMPL_H
#include "base/mix.h"
#include "headrace/exec.h"

enum {
    HR__NONE = -1,
    HR__SENDS_AHEAD =
        2, /* transfers of a channel that may be under way, where nothing else says */
    HR__SLOTS_BEHIND =
        2, /* a receive waits for the slot before the last that was issued */
};

/* ---- channels: one for each ordered pair of ranks that a schedule sends along ---------------- */
/* What goes ahead of a tensor whose shape the other side cannot know. */
typedef struct hr__shape_ahead {
    int64_t dtype, ndim, dim[HR_MAX_DIMS];
} hr__shape_ahead;

/* This rank's end of a channel. */
typedef struct hr__wire {
    int from, to;    /* ranks of the pipeline */
    hr_group *group; /* member 0 sends, member 1 receives */
    hr_stream *stream;
    hr_event *ready; /* send: the value is there; receive: the shape is */
    hr_event *ended; /* send: all that was issued has run */
    hr_event *ahead[HR__SENDS_AHEAD];
    uint64_t sends; /* of this step, that nothing later waits for */
    bool used;      /* in this step */
    int64_t waited; /* receive: slots that its stream waits for */
    int pending;    /* receive: the cell whose shape is under way; HR__NONE */
    hr__shape_ahead *shape_there, shape; /* on the device, on the host; shapes vary */
} hr__wire;

/* ---- programs -------------------------------------------------------------------------------- */
/* Where a tensor stands. One that was received is used first behind `there`. */
typedef struct hr__cell {
    hr_tensor *t; /* one reference */
    hr_event *there;
    int wire;  /* its receive: HR__NONE once the compute stream waits for it */
    bool sent; /* it left early, from a pair's hook */
} hr__cell;

/* One computation. Numbers of cells and events may be HR__NONE. */
typedef struct hr__act {
    uint8_t kind; /* F, B, I, W */
    bool split;
    int mine; /* stage, as number of this rank's */
    int microbatch;
    int in, out; /* cells of what it takes and makes */
    int done;    /* cell of the stage's input, whose last use this is */
    int left;    /* event: the output of this stage and microbatch has left */
    int send;    /* the operation that sends `out`, if only other sends stand between */
} hr__act;

typedef enum hr__op_kind { HR__SLOT, HR__SEND, HR__RECV, HR__REDUCE } hr__exec_op_kind;

typedef struct hr__op {
    hr__exec_op_kind kind;
    int first, n; /* SLOT: its acts */
    int mine, microbatch;
    bool back; /* SEND, RECV: a gradient */
    int cell;
    int wire;
    int leaves; /* SEND: event that says so at this stage's backward; HR__NONE: `ahead` */
} hr__op;

struct hr_program {
    hr_exec *e;
    int ranks, stages, microbatches;
    bool forward_only;
    uint64_t hash; /* of all ranks' orders */
    hr__op *op;
    int n_ops;
    hr__act *act;
    int n_acts;
    hr__cell *cell;
    int n_cells;
    hr_event **left;
    int n_left;
    int64_t *tokens; /* [microbatches] valid ones of those whose loss is made here */
};

struct hr_exec {
    hr_group *pp, *world;
    hr_device *dev;
    int dp, rank, ranks;  /* of the pipeline */
    hr_exec_stage *stage; /* in order along the model */
    int n_stages;
    hr_exec_shape *shape; /* NULL: they vary */
    int n_shapes;
    uint64_t fingerprint;
    bool *made; /* [ranks * ranks] channels that exist anywhere */
    hr__wire *wire;
    int n_wires;
    hr_group *control;
    hr_stream *control_stream;
    void *words; /* on the device: of all ranks of the world */
    struct hr__word *seen;
    hr_event
        *slot[HR__SLOTS_BEHIND]; /* ends of the last slots, on the compute stream */
};

/* ---- agreement ------------------------------------------------------------------------------- */
typedef enum hr__deed { HR__OPENS, HR__LOADS, HR__STEPS } hr__deed;

/* What one rank is about to do. */
typedef struct hr__word {
    int64_t deed, ranks, stages, microbatches, forward_only, mode, tokens, status;
    uint64_t hash, fingerprint;
    char reason[32], text[400]; /* of `status` */
} hr__word;

hr_status hr__agree_init(hr_exec *e);
void hr__agree_fini(hr_exec *e);
/* Collective: `w` of all ranks into e->seen; the same answer on all. A status of any rank is that
 * of all; ERR_MISMATCH "exec_differs". */
hr_status hr__agree(hr_exec *e, const hr__word *w);
/* For a rank that has failed with `st` before it can ask the others, which wait for it: they fail with it. */
hr_status hr__agree_not(hr_group *world, hr_status st);
/* Take the calling thread's last failure into `w`. */
void hr__word_fail(hr__word *w, hr_status st);

/* ---- channels -------------------------------------------------------------------------------- */
/* need[ranks * ranks]: those that the lowered `s` sends along. This rank's ends of those that are not
 * there get their streams and events. */
hr_status hr__channels_prepare(hr_exec *e, const hr_schedule *s, bool *need);
/* Their groups. Collective over the pipeline. */
hr_status hr__channels_join(hr_exec *e, const bool *need);
void hr__channels_keep(hr_exec *e, const bool *need); /* all ranks have joined */
void hr__channels_forget(hr_exec *e);                 /* what was not kept */
void hr__channels_fini(hr_exec *e);
int hr__wire_of(const hr_exec *e, int from, int to); /* HR__NONE: not of this rank */

/* ---- laying out ------------------------------------------------------------------------------ */
/* This rank's order of the lowered `s` into `p`, whose counts are set. */
hr_status hr__program_lay_out(hr_program *p, const hr_schedule *s);
int hr__stage_of(const hr_exec *e, int stage); /* as number of this rank's; HR__NONE */

/* ---- a step ---------------------------------------------------------------------------------- */
typedef struct hr__step {
    hr_exec *e;
    const hr_program *p;
    hr_stream *compute;
    hr_step_counts counts;
    int64_t slots; /* issued */
} hr__step;

hr_status hr__run_slot(hr__step *x, const hr__op *op);
hr_status hr__send(hr__step *x, const hr__op *op);
hr_status hr__recv(hr__step *x, const hr__op *op);
/* The tensor in `cell`, ordered before what the compute stream gets next. */
hr_status hr__wait_cell(hr__step *x, int cell);
/* Its tensor is made, though what is in it may still come: the host waits for a shape. */
hr_status hr__expect_cell(hr__step *x, int cell);
void hr__drop_cell(const hr_program *p, int cell);
/* Post the send of `t`, borrowed, behind what is on the current stream. */
hr_status hr__post_send(hr__step *x, const hr__op *op, hr_tensor *t);
/* The compute stream waits for all sends. */
hr_status hr__await_sends(hr__step *x);

/* Shapes that go ahead (shape_ahead.c). */
hr_status hr__shape_send(hr__wire *w, const hr_tensor *t);
hr_status hr__shape_recv(hr__wire *w);
hr_status hr__shape_wait(hr__wire *w, hr_exec_shape *out);
hr_status hr__shape_check(const hr__step *x, int stage, const hr_tensor *t);

/* ---- words ----------------------------------------------------------------------------------- */
/* Put "stage 2 (chunk 0), microbatch 3, backward: " before the last failure; `st` without a word
 * becomes ERR_CALLBACK. */
hr_status hr__act_failed(const hr__step *x, const hr__act *a, hr_status st);
hr_status hr__pair_failed(const hr__step *x, const hr__act *f, const hr__act *b,
                          hr_status st);
hr_status hr__op_failed(const hr__step *x, const hr__op *op, hr_status st);
const char *hr__transfer_name(const hr__op *op); /* "sending the gradient" */

#endif
