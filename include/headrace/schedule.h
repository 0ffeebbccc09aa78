/* headrace/schedule.h: pipeline schedules as data. A schedule says, for each rank, in which order
 * it computes what; it is generated or read, checked, simulated, lowered to communication and
 * written, all before anything runs.
 *
 *     hr_schedule *s;
 *     HR_TRY(hr_schedule_generate("1f1b", &(hr_generate_opts){HR_INIT(hr_generate_opts),
 *                                  .ranks = 4, .microbatches = 8}, &s));
 *     HR_TRY(hr_schedule_check(s, NULL, NULL));
 *     HR_TRY(hr_schedule_simulate(s, NULL, &figures));
 *
 * A stage is a part of the model, counted along it; a rank holds one or more. An order is a list
 * of slots; a slot is one action, or an overlapped pair of them. In text, as in PyTorch: `3F7` is
 * the forward of microbatch 7 on stage 3, `(0F7;7B3)` a pair.
 *
 * Threads: a schedule is used by one thread at a time; functions that take it const may run at
 *          the same time.
 * Errors:  a missing object, text or place for a result is ERR_INVALID "no_argument"; functions
 *          that return no status take an object.
 */
#ifndef HR_SCHEDULE_H
#define HR_SCHEDULE_H
#include "headrace/base.h" /* HR_API, HR_RESULT, hr_status */
HR_BEGIN_C

/* The word of each action in text. F to W compute, SEND_F to RECV_B communicate, the rest
 * prepares a stage's weights and has no microbatch. */
#define HR_ACTION_MAP(X)                                                               \
    X(F, "F")           /* forward */                                                  \
    X(B, "B")           /* whole backward: input and weight gradient */                \
    X(I, "I")           /* backward for the input alone */                             \
    X(W, "W")           /* backward for the weights, after the I */                    \
    X(SEND_F, "SEND_F") /* activation of this stage to the rank of the next */         \
    X(RECV_F, "RECV_F") /* activation for this stage from the rank of the previous */  \
    X(SEND_B, "SEND_B") /* gradient of this stage to the rank of the previous */       \
    X(RECV_B, "RECV_B") /* gradient for this stage from the rank of the next */        \
    X(UNSHARD, "UNSHARD")                                                              \
    X(RESHARD, "RESHARD")                                                              \
    X(REDUCE_GRAD, "REDUCE_GRAD")

typedef enum hr_action_kind {
#define X(name, word) HR_ACTION_##name,
    HR_ACTION_MAP(X)
#undef X
} hr_action_kind;

typedef struct hr_action {
    int32_t microbatch; /* -1 where the kind has none */
    uint16_t stage;
    uint8_t kind; /* hr_action_kind */
    uint8_t
        pair; /* 0: a slot of its own; else actions of its pair from here to the last */
} hr_action;

typedef enum hr_placement {
    HR_PLACEMENT_LOOP,          /* stage s on rank s mod ranks */
    HR_PLACEMENT_V,             /* two stages a rank: s, then back: 2 ranks - 1 - s */
    HR_PLACEMENT_BIDIRECTIONAL, /* first half of the microbatches: s; others: ranks - 1 - s */
    HR_PLACEMENT_MAP,           /* as given */
} hr_placement;

/* Costs are whole numbers of ticks, so that sums are exact; text has them in units. */
#define HR_TICKS ((int64_t)1000000) /* a unit */

/* What one microbatch costs on one stage. B costs i + w. With `recompute` only the input
 * (`boundary_bytes`) is held between F and backward, and B or I costs an f more. */
typedef struct hr_stage_cost {
    int64_t f, i, w;        /* ticks; default one unit each */
    int64_t act_bytes;      /* held from F to the end of B, or of I */
    int64_t stash_bytes;    /* of these, held on from I to W */
    int64_t boundary_bytes; /* the stage's input */
    bool recompute;
} hr_stage_cost;

typedef struct hr_schedule_shape {
    size_t size;
    int ranks, stages, microbatches;
    hr_placement placement;
    const int *rank_of_stage; /* MAP: `stages` ranks; copied */
    bool forward_only;
    int pieces; /* above 1: a sequence is this many microbatches on end, as of seq-1f1b,
                   and what they attend to would have to be carried on; 0 is as 1 */
} hr_schedule_shape;

typedef struct hr_schedule hr_schedule;

/* Make an empty schedule, to be filled by hr_schedule_append().
 *
 * Errors: ERR_INVALID for counts that are not positive, do not fit the placement, or are
 *         above what the library takes (65,535 ranks and stages, 64 Mi pairs of stage and
 *         microbatch), ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_schedule_create(const hr_schedule_shape *shape,
                                              hr_schedule **out);
HR_API void hr_schedule_destroy(hr_schedule *s);

/* Append one slot of `n` actions to the order of `rank`: one action, or a pair of two or more,
 * which all compute. The `pair` fields are set here. Whether the order makes sense is for
 * hr_schedule_check() to say.
 *
 * Errors: ERR_INVALID for a rank, stage, microbatch or kind that cannot be, ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_schedule_append(hr_schedule *s, int rank,
                                              const hr_action *slot, int n);

HR_API void hr_schedule_get_shape(const hr_schedule *s, hr_schedule_shape *out);
/* The order of `rank`, borrowed until the next append. */
HR_API const hr_action *hr_schedule_order(const hr_schedule *s, int rank, size_t *n);
HR_API size_t hr_schedule_actions(const hr_schedule *s); /* of all ranks */
/* The rank that runs `stage` for `microbatch`; -1 if none does. */
HR_API int hr_schedule_rank_of(const hr_schedule *s, int stage, int microbatch);
/* Whether it holds communication. */
HR_API bool hr_schedule_is_lowered(const hr_schedule *s);
/* Same shape, and the same actions in the same order. Costs may differ. */
HR_API bool hr_schedule_equal(const hr_schedule *a, const hr_schedule *b);

/* `stage` -1 sets all. Errors: ERR_INVALID for a cost below 0 or above a million units, bytes
 * below 0 or above 64 GiB, a stash above the activation. */
HR_API HR_RESULT hr_status hr_schedule_set_cost(hr_schedule *s, int stage,
                                                const hr_stage_cost *cost);
HR_API void hr_schedule_get_cost(const hr_schedule *s, int stage, hr_stage_cost *out);
/* `comm` ticks from the end of a slot until its result is there on another rank; a pair lasts
 * `pair_discount` percent less than its actions one after the other. */
HR_API HR_RESULT hr_status hr_schedule_set_comm(hr_schedule *s, int64_t comm,
                                                int pair_discount);
/* `latency` ticks more until it is there, in which the link between the two ranks is free again;
 * 0 unless set. */
HR_API HR_RESULT hr_status hr_schedule_set_latency(hr_schedule *s, int64_t latency);
/* What was set; any of the three may be NULL. */
HR_API void hr_schedule_get_comm(const hr_schedule *s, int64_t *comm, int64_t *latency,
                                 int *pair_discount);

/* Our text form: sizes, placement, pieces, costs and the order of each rank. Text that was written by
 * hr_schedule_print() is read and written again without change.
 *
 * Owner:  *out is the caller's; text by free().
 * Errors: ERR_PARSE with line, field and reason; texts above 64 MiB are refused unread. */
HR_API HR_RESULT hr_status hr_schedule_parse(const char *text, size_t bytes,
                                             hr_schedule **out);
HR_API HR_RESULT hr_status hr_schedule_print(const hr_schedule *s, char **out);

/* The CSV of PyTorch's pipelining: a line a rank, a field an action, empty fields idle. Both
 * forms, with and without communication, are read; sizes and placement follow from the
 * actions. Strict: text that PyTorch would drop without a word is an error here. What is
 * written has no idle fields. The format has no pieces: each is a microbatch.
 *
 * Errors: ERR_PARSE with line, field and reason; writing refuses (ERR_UNSUPPORTED)
 *         bidirectional placements, which the format cannot hold. */
HR_API HR_RESULT hr_status hr_schedule_parse_csv(const char *text, size_t bytes,
                                                 hr_schedule **out);
HR_API HR_RESULT hr_status hr_schedule_print_csv(const hr_schedule *s, char **out);

/* What a check is to hold against; zeros: no limit. */
typedef struct hr_check_opts {
    size_t size;
    int max_act;    /* activations held by any rank, see hr_rank_figures */
    int max_wstash; /* weight gradients put off by any rank */
    int64_t max_bytes;
} hr_check_opts;

/* What holds, apart from which failed first. */
typedef struct hr_check_report {
    bool complete; /* each action exactly once, each transfer at both ends */
    bool placed;   /* each action on its stage's rank */
    bool runs; /* no rank waits for ever, nor where every send waits for its receive */
    bool fits; /* within the limits */
} hr_check_report;

/* Is the schedule sound? The first thing that is not is named in words, with rank, position in
 * its order (from 0) and action: what is missing or stands twice, the first unmet
 * dependency, or the smallest circle of ranks that wait for each other.
 *
 * Errors: ERR_INVALID with the reason "range", "twice", "missing", "misplaced", "unmatched",
 *         "deadlock" or "limit"; ERR_NOMEM. `report` may be NULL. */
HR_API HR_RESULT hr_status hr_schedule_check(const hr_schedule *s,
                                             const hr_check_opts *opts,
                                             hr_check_report *report);

typedef struct hr_slot_time {
    int64_t start, end;
} hr_slot_time;

typedef struct hr_rank_figures {
    int64_t busy, first,
        last;            /* ticks: at work; start of the first slot, end of the last */
    double bubble;       /* 1 - busy / makespan */
    int peak_act;        /* most activations: +1 before an F, -1 after its B or W */
    int peak_act_i;      /* the same, released after its B or I */
    int peak_wstash;     /* most I whose W is still to come */
    int64_t peak_bytes;  /* by the bytes of hr_stage_cost */
    int gaps;            /* times it waits between two slots that compute */
    int64_t longest_gap; /* ticks */
    hr_slot_time *time;  /* of each action of its order, a pair's all the same; NULL
                            unless asked for */
} hr_rank_figures;

/* A slot that could not be longer, or its transfer slower, without a longer makespan. */
typedef struct hr_path_step {
    int rank;
    size_t position; /* of its first action in the order of `rank` */
    int64_t
        transfer; /* ticks from the end of the step before until its result was there */
    int64_t start, end; /* `transfer` after the end of the step before */
} hr_path_step;

typedef struct hr_figures {
    int64_t makespan; /* ticks until the last slot of any rank ends */
    int64_t
        span; /* largest last - first: counts where ranks do not wait at the step's end */
    int ranks;
    hr_rank_figures *rank;
    /* The critical path, from the start to the end of the makespan; NULL unless asked for. */
    hr_path_step *path;
    size_t path_steps;
    int64_t path_compute, path_transfer; /* ticks; together they are the makespan */
} hr_figures;

typedef struct hr_simulate_opts {
    size_t size;
    bool split_pairs; /* run the actions of a pair one after the other, as slots */
    bool blocking;    /* lowered schedules: a transfer holds both ranks until it ends */
    bool times;       /* say when each action runs */
    bool queue;       /* transfers from one rank to another go one after the other */
    bool path;        /* find the critical path */
} hr_simulate_opts;

/* Run it on paper. A rank takes its slots in order; a slot starts when the one before has ended
 * and its inputs are there, lasts the sum of its costs, and its results are there at its
 * end, on other ranks `comm` and the latency later. Transfers take no time from a rank, unless
 * `blocking`, and none from each other, unless `queue`: then one starts when the one before on
 * its link, in the order of the sender, has taken its `comm`.
 *
 * Owner:  *out by hr_figures_destroy().
 * Errors: ERR_INVALID as of hr_schedule_check() if it cannot run, or if its times do not fit
 *         into 63 bits. */
HR_API HR_RESULT hr_status hr_schedule_simulate(const hr_schedule *s,
                                                const hr_simulate_opts *opts,
                                                hr_figures **out);
HR_API void hr_figures_destroy(hr_figures *f);

/* A makespan that no order of the same slots on the same ranks can be below: all work of a rank,
 * the least wait before it, the least rest after it, and all that one microbatch has to go
 * through. What a schedule is above it is the most that reordering could save.
 *
 * Errors: those of hr_schedule_check(). */
HR_API HR_RESULT hr_status hr_schedule_bound(const hr_schedule *s, int64_t *out);

/* What to generate. Zero is "as the schedule does it by itself" for all but the sizes. */
typedef struct hr_generate_opts {
    size_t size;
    int ranks, microbatches;
    int chunks; /* stages a rank */
    int group;  /* interleaved, combined, interleaved-zb, grouped: microbatches
                                  that go through a chunk before the next chunk */
    int pieces; /* seq-1f1b: parts of a sequence, each then a microbatch: piece q
                                  of microbatch b is number b * pieces + q; default 2 */
    bool expert_overlap; /* interleaved: one forward more before the first backward */
    int max_act;         /* searching generators: most activations a rank may hold */
    const hr_stage_cost *cost; /* of each stage, for generators that go by costs */
    int64_t comm;
    int64_t latency;
    /* Costs that differ: of `stage_costs` stages, as many as there come to be. Wins over `cost`. */
    const hr_stage_cost *stage_cost;
    int stage_costs;
} hr_generate_opts;

/* Generate by name: one of hr_schedule_name(), or "auto", which is what hr_schedule_optimise() finds
 * by itself for these sizes, costs and limit. What is generated passes hr_schedule_check().
 *
 * Errors: ERR_INVALID for a name that is none (reason "schedule_name"), and where the schedule
 *         cannot do these sizes ("schedule_refused"): the sentence has the sizes, the rule
 *         and the nearest numbers that work. */
HR_API HR_RESULT hr_status hr_schedule_generate(const char *name,
                                                const hr_generate_opts *opts,
                                                hr_schedule **out);
/* The i-th name from 0, NULL after the last; and what it is, in a few words. */
HR_API const char *hr_schedule_name(int i);
HR_API const char *hr_schedule_about(int i);

/* Megatron's get_forward_backward_func(): the schedule of a model on `ranks` stages of a pipeline, with
 * `chunks` virtual stages a rank, 0 if it has no virtual stages. *name is NULL for one rank:
 * no pipeline, hr_forward_backward_no_pipelining(). One virtual stage is interleaved too.
 *
 * Errors: ERR_INVALID ("schedule_size") for counts below 0. */
HR_API HR_RESULT hr_status hr_get_forward_backward_func(int ranks, int chunks,
                                                        const char **name);

/* Megatron's get_schedule_table(): the microbatch and chunk of virtual microbatch k, counted from
 * 0 over `chunks` x `microbatches`; `group` microbatches run through a chunk before the next.
 *
 * Errors: ERR_INVALID for counts below 1 and a k out of range. */
HR_API HR_RESULT hr_status hr_get_schedule_table(int microbatches, int chunks,
                                                 int group, int k, int *microbatch,
                                                 int *chunk);

/* Megatron's get_pp_rank_microbatches(): how a rank's forwards are spent. */
typedef struct hr_rank_microbatches {
    int total;     /* forwards of the rank, over its chunks */
    int warmup;    /* before its first backward */
    int remaining; /* after that, each beside a backward */
    bool all_warmup;
} hr_rank_microbatches;
HR_API void hr_get_pp_rank_microbatches(const hr_generate_opts *opts, int rank,
                                        bool interleaved, bool forward_only,
                                        hr_rank_microbatches *out);

/* Merge neighbouring slots of a rank, a forward and a backward (B or I) of different microbatches,
 * into overlapped pairs, as many as one pass finds: both halves of a pair wait for the inputs of
 * both, so not all neighbours can. The forward is written first. The two run at once, so a rank
 * whose backward came first may hold an activation more than before. A schedule that has pairs
 * is copied as it is. The same schedule always gives the same result; it passes the check.
 *
 * Owner:  *out is the caller's; *pairs says how many pairs it has.
 * Errors: ERR_INVALID as of hr_schedule_check(), and "lowered" for a schedule that has
 *         communication already; ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_schedule_merge_pairs(const hr_schedule *s,
                                                   hr_schedule **out, int *pairs);

typedef struct hr_lower_opts {
    size_t size;
    bool shards;    /* UNSHARD a stage's weights before use and RESHARD them after, as
                       PyTorch does: at most three stages at a time, pairs aside */
    bool no_reduce; /* leave out REDUCE_GRAD */
} hr_lower_opts;

/* Insert communication: a send right behind the action that makes a value, its receive at the end
 * of what the other rank has so far, and the reduction of a stage's gradients behind its
 * last. Sends and receives are thus put down two at a time in one order over all ranks: they
 * cannot deadlock even where each waits for the other, and between two ranks the order of
 * receives is the order of sends. The same schedule always gives the same result.
 *
 * Errors: ERR_INVALID as of hr_schedule_check(), and for a schedule that is lowered already. */
HR_API HR_RESULT hr_status hr_schedule_lower(const hr_schedule *s,
                                             const hr_lower_opts *opts,
                                             hr_schedule **out);

/* ---- optimise: the best schedule for given sizes, costs and memory ---- */

typedef struct hr_optimise_progress {
    int64_t step, steps;     /* tried, and to be tried at most */
    int64_t makespan, bound; /* ticks: the best so far, and what it cannot be below */
} hr_optimise_progress;

typedef struct hr_optimise_opts {
    size_t size;
    int ranks, microbatches;
    int chunks; /* stages a rank; 0: one */
    bool
        fewer_chunks; /* also with fewer, larger stages: any number that divides `chunks` */
    unsigned placements; /* 1u << HR_PLACEMENT_..., or-ed; 0: LOOP and V. BIDIRECTIONAL
                            counts as one chunk, and holds every parameter twice */
    bool whole_backward; /* weight gradients may not be split off */
    const hr_stage_cost
        *cost; /* `costs` of them, in the order of the model; NULL: units */
    int costs; /* ranks x chunks, or 1 that holds for every stage */
    int64_t comm, latency;
    int pair_discount;
    int max_act; /* activations of a rank, each of one of its `chunks` stages: with
                          fewer chunks as many as take the same room; 0: no limit */
    int64_t max_bytes; /* of activations, by the bytes of the costs; 0: no limit */
    uint64_t seed;
    int64_t steps; /* changes tried by the search; 0: up to a second's worth;
                       below 0: none, the best generator's schedule is taken */
    double
        seconds; /* stops earlier; then the result depends on the machine. 0: never */
    void (*progress)(void *arg, const hr_optimise_progress *now); /* may be NULL */
    void *arg;
} hr_optimise_opts;

typedef struct hr_optimise_report {
    const char *generator; /* the best within the limits; NULL if none is */
    int64_t generator_makespan;
    int64_t makespan, bound; /* of what was found; hr_schedule_bound() */
    int64_t steps;           /* that were tried */
    bool searched;           /* what was found is better than the generator's */
    int least_act; /* the smallest limits that can be kept, each without the other; */
    int64_t least_bytes; /* also after the reason "infeasible" */
} hr_optimise_report;

/* Try every generator with all its parameters (groups, limits, chunks) and keep the best within the
 * limits; then search on from the best few and from list schedules, by moving actions of one
 * or all microbatches along their ranks, always within the limits. Never worse than the best
 * generator. A seed and a number of steps give the same schedule every time. Of more than 32 Ki
 * pairs of stage and microbatch fewer groups are tried, and of generators only what they do by a rule.
 *
 * Owner:  *out is the caller's. `report` may be NULL.
 * Errors: ERR_INVALID: "infeasible" if no schedule at all is within the limits, the sentence has the
 *         smallest that can be kept; "optimise_option" for options that cannot be; those of
 *         hr_schedule_set_cost(). ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_schedule_optimise(const hr_optimise_opts *opts,
                                                hr_schedule **out,
                                                hr_optimise_report *report);

/* A layout says what of the model each stage holds. The model is a row: embedding, decoder layers,
 * layers of multi-token prediction (MTP), loss; a stage holds a stretch of it, so that each
 * layer stands exactly once and in order. */
typedef struct hr_layout hr_layout;

typedef struct hr_layout_opts {
    size_t size;
    int ranks;
    int chunks;             /* stages a rank; 0: one, or by hand what the text has */
    hr_placement placement; /* LOOP or V */
    int layers, mtp;        /* by hand layers 0: both as the text has them */
    int first,
        last;    /* decoder layers of the first and the last rank; 0: as the others */
    bool uneven; /* spread layers that do not divide, instead of refusing */
    const int64_t
        *cost; /* of the whole row, layers + mtp + 2: a split with the smallest
                            dearest stage; wants neither first nor last */
} hr_layout_opts;

typedef struct hr_layout_part {
    int rank, chunk;
    bool embedding, loss;
    int first_layer, layers; /* decoder layers, counted along the model */
    int first_mtp, mtp;
} hr_layout_part;

/* Split the model over the stages.
 *
 * Errors: ERR_INVALID with the reason "layout_size" for numbers that are none, "layout_refused"
 *         where layers would be lost or a stage be empty, with the nearest that work. */
HR_API HR_RESULT hr_status hr_layout_split(const hr_layout_opts *opts, hr_layout **out);
/* By hand, in Megatron's words: `E` embedding, `t` decoder layer, `m` MTP layer, `L` loss, `|`
 * between stages, `x*3` and `(tt|)*29` for repeats; commas are for the eye. "Et*3|(tt|)*29,m|L"
 * is 32 stages. A stage may be empty.
 *
 * Errors: ERR_PARSE with the position, from 1, and the reason; ERR_INVALID
 *         ("layout_refused") where the text is not for these ranks or layers. */
HR_API HR_RESULT hr_status hr_layout_parse(const char *text, size_t bytes,
                                           const hr_layout_opts *opts, hr_layout **out);
HR_API HR_RESULT hr_status hr_layout_print(const hr_layout *l, char **out); /* free() */
HR_API void hr_layout_destroy(hr_layout *l);

HR_API int hr_layout_stages(const hr_layout *l);
HR_API int hr_layout_layers(const hr_layout *l);
HR_API int hr_layout_mtp(const hr_layout *l);
/* Errors: ERR_INVALID for a stage, or a decoder layer, that is none. */
HR_API HR_RESULT hr_status hr_layout_get(const hr_layout *l, int stage,
                                         hr_layout_part *out);
HR_API HR_RESULT hr_status hr_layout_find(const hr_layout *l, int layer, int *stage,
                                          int *local);

HR_END_C
#endif
