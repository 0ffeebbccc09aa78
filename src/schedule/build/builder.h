/* What a generator supplies: one of these a file, listed in table.c. Internal to src/schedule. */
#ifndef HR_BUILDER_H
#define HR_BUILDER_H
#include "schedule/schedule_impl.h"

/* A schedule that is being generated. */
typedef struct hr__build {
    hr_schedule *s; /* made of the builder's placement before `order` is called */
    hr_generate_opts o;
    int p, v, m;  /* ranks, chunks a rank, microbatches (of seq-1f1b: its pieces) */
    bool rule;    /* only what it does by a rule: nothing is searched for */
    hr_status st; /* the first failure of put; later puts do nothing */
    int64_t makespan, shaken; /* of `s`, as hr__keep_better() found them; 0: not yet */
} hr__build;

/* Can a schedule do these sizes? TRY: sometimes; it is built and checked. */
typedef enum hr__answer { HR__NO, HR__YES, HR__TRY_IT } hr__answer;

typedef struct hr__builder {
    const char *name;
    const char *about;
    int chunks; /* the only number of chunks that it does; 0: any */
    hr_placement placement;
    bool forward_only;
    bool pieces;   /* microbatches come in `pieces` */
    bool v_orders; /* within a limit its search is that of hr__v_orders() */

    /* Optional: activations that a rank may hold where no limit is given. */
    int (*own_act)(int ranks);
    /* Optional: fills in other defaults of `o` that depend on its sizes. */
    void (*defaults)(hr_generate_opts *o);
    /* Optional: are these sizes possible? NULL: all that are positive are. */
    hr__answer (*takes)(const hr_generate_opts *o);
    const char *rule; /* of `takes`, in words: "an even number of microbatches, ..." */

    /* One of the two: the order of one rank, or all orders at once. */
    void (*order)(hr__build *b, int rank);
    void (*orders)(hr__build *b);
} hr__builder;

/* NULL-ended, in table.c. */
extern const hr__builder *const hr__builders[];

/* What the caller left to the schedule, filled in. */
void hr__fill_defaults(const hr__builder *w, hr_generate_opts *o);
/* hr_schedule_generate() by its builder. With `rule` what a search would have found may be missing: *out is
 * NULL where there is nothing without one. */
hr_status hr__generate(const hr__builder *w, const hr_generate_opts *opts, bool rule,
                       hr_schedule **out);

/* Append to the order of a rank. */
void hr__put(hr__build *b, int rank, hr_action_kind kind, int stage, int microbatch);
void hr__put_pair(hr__build *b, int rank, hr_action_kind kind, int stage,
                  int microbatch, hr_action_kind kind2, int stage2, int microbatch2);

static inline int hr__min(int a, int b)
{
    return a < b ? a : b;
}

/* Interleaved orders, shared by interleaved and combined; what it takes also by others. */
void hr__group_table(int microbatches, int chunks, int group, int k, int *microbatch,
                     int *chunk);
void hr__interleaved_defaults(hr_generate_opts *o);
hr__answer hr__interleaved_takes(const hr_generate_opts *o);
void hr__interleaved_order(hr__build *b, int rank, bool pairs);

#endif
