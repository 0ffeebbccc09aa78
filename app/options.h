/* What the sub-commands can be told. One table of data (option_table.c) drives the parsing of long
 * options, the keys of a JSON file, the checks of ranges and the text of --help; what several
 * options must agree on stands in option_check.c.
 *
 *     train_options o;
 *     switch (hr_app_options_train(argc, argv, &o)) ...
 *
 * A failure is ERR_INVALID (ERR_IO, ERR_PARSE for the JSON file) with a sentence that names the
 * nearest valid option or value. PENDING means that help was asked for and nothing is to be run.
 */
#ifndef HR_APP_OPTIONS_H
#define HR_APP_OPTIONS_H
#include "headrace/base.h"
#include <limits.h>

enum { OPTION_PATH = 4096, OPTION_RANKS = 256 /* at most */ };

/* What a checkpoint has to know to be read back. */
typedef struct model_shape {
    int layers; /* dense ones included */
    int width, heads;
    int experts, top_k, expert_width;
    int dense_layers, dense_width; /* leading layers without experts */
    int shared_width;              /* shared expert; 0: none */
    int seq;
    int tie_embeddings; /* 0 or 1 */
    int mtp;            /* 0 or 1: one layer of multi-token prediction */
} model_shape;

typedef enum loss_scale_mode {
    LOSS_SUM,
    LOSS_MEAN_MICROBATCH,
    LOSS_MEAN_TOKEN
} loss_scale_mode;

typedef enum number_precision { PRECISION_F32, PRECISION_BF16 } number_precision;

typedef struct train_options {
    model_shape model;
    char data[OPTION_PATH], out[OPTION_PATH], config[OPTION_PATH];
    int64_t steps, seed;
    int pp, vp; /* vp: stages a rank; 0: as the schedule has it */
    int ep, dp; /* dp: 0 in, set to ep by the checks */
    int microbatches, micro_batch_size;
    int global_batch_size; /* = microbatches * micro_batch_size * dp after the checks */
    int overlap, delay_wgrad;
    int overlap_asked;          /* by name, so that it must come to something */
    char schedule[OPTION_PATH]; /* a name or a file; "": by overlap and vp */
    char layout[OPTION_PATH];   /* which layers lie where; "": evenly */
    int precision;              /* number_precision of weights and activations */
    int recompute;              /* forwards are done again in backward */
    int dispatcher;             /* 0 all-to-all, 1 symmetric: an hr_moe_kind */
    double capacity_factor;     /* of the symmetric one; 0: nothing can overflow */
    double link_gbps, link_us;  /* both 0: no imitated link */
    double timeout_s;
    int checkpoint_every; /* steps; 0: only at the end */
    int keep;             /* checkpoints, the newest included */
    int resume, dry_run;
    int check;      /* the stream checker */
    int loss_scale; /* loss_scale_mode */
    double lr, min_lr;
    int warmup;
    double weight_decay, clip; /* clip 0: none */
    int shard_optimizer;       /* its state over data-parallel ranks */
    double aux_coef, mtp_coef; /* weights beside the main loss */
    int eval_every,
        eval_batches;    /* 0: only at the end; windows of a rank's microbatch */
    int cores;           /* over all ranks; 0: those the process may use */
    double time_limit_s; /* 0: none */
    char device[16];
    char profile[OPTION_PATH]; /* where costs of layers go; "": they are not measured */
} train_options;

typedef struct sample_options {
    char checkpoint[OPTION_PATH]; /* a file, its folder, or what --out named */
    char prompt[OPTION_PATH];
    char out[OPTION_PATH]; /* "": standard output */
    int length;
    double temperature; /* 0: always the likeliest byte */
    int top_k;          /* of bytes; 0: all */
    int64_t seed;
    char config[OPTION_PATH];
} sample_options;

typedef struct info_options {
    int json;
} info_options;

/* Costs and bytes are of one microbatch on all that a rank holds of the model. */
typedef struct plan_options {
    int pp, vp, microbatches; /* vp 0: two where a schedule has a choice */
    int group; /* microbatches that go through a chunk before the next; 0: default */
    double cost_f, cost_i, cost_w;         /* units */
    double transfer, latency;              /* units; of a profile unless given */
    int queue;                             /* transfers of a link wait for each other */
    int pair_discount;                     /* percent */
    int64_t activation_bytes, stash_bytes; /* held from F; of these, on from I to W */
    int64_t boundary_bytes;                /* what goes from stage to stage */
    int64_t param_bytes, memory_limit;     /* of a rank; limit 0: none */
    char recompute[256]; /* stages that do forwards again: "none", "all", "0,4-7" */
    char schedule[32];   /* "": a table of all; "auto": what is searched for */
    char out[OPTION_PATH], csv[OPTION_PATH], check[OPTION_PATH]; /* "": none */
    char text[OPTION_PATH], profile[OPTION_PATH], layout[OPTION_PATH];
    int optimise;        /* search for the best, which comes above the table */
    int64_t seed, steps; /* of the search; steps 0: up to a second's worth */
    double time_limit_s; /* 0: none */
    const struct profile *measured; /* what `profile` holds, once it is read; or NULL */
} plan_options;

/* `argv` without the program and the sub-command. Fills *o with defaults, then the file that --config
 * names, then the command line; then checks everything together. PENDING: --help was printed to
 * standard output. */
hr_status hr_app_options_train(int argc, char *const *argv, train_options *o);
hr_status hr_app_options_sample(int argc, char *const *argv, sample_options *o);
hr_status hr_app_options_plan(int argc, char *const *argv, plan_options *o);
hr_status hr_app_options_info(int argc, char *const *argv, info_options *o);

/* Whether a schedule is searched for, rather than made by name. */
bool hr_app_plan_searches(const plan_options *o);
/* Whether --check names a CSV, which has no costs of its own, and not our text. */
bool hr_app_plan_checks_csv(const plan_options *o);

/* The defaults alone, checked. */
void hr_app_options_train_defaults(train_options *o);

#endif
