/* Every option of every sub-command, with its default, range and help: the one place to change a
 * default. Reading order: train, sample, plan, info. */
#include "option_spec.h"
#include "options.h"

static const char *const off_on[] = {"off", "on", NULL};
static const char *const devices[] = {"host", "cuda", NULL};
static const char *const precisions[] = {"f32", "bf16", NULL};
static const char *const dispatchers[] = {"alltoall", "symmetric", NULL};
static const char *const loss_modes[] = {"sum", "mean_microbatch", "mean_token", NULL};

#define LARGE 1000000000.0 /* what an int holds, and nobody wants more of */

#define HEADING(text)                                                                  \
    {                                                                                  \
        .name = (text), .kind = OPTION_HEADING                                         \
    }
#define AT(type, field)                                                                \
    .offset = offsetof(type, field), .room = sizeof(((type *)NULL)->field)

/* Short names for the columns, so that a row is an option. */
#define TRAIN(field) AT(train_options, field)
#define INT(label, field, lo, hi, value)                                               \
    .name = (label), .kind = OPTION_INT, .min = (lo), .max = (hi),                     \
    .fallback = (value), .arg = "N", TRAIN(field)
#define INT64(label, field, lo, hi, value)                                             \
    .name = (label), .kind = OPTION_INT64, .min = (lo), .max = (hi),                   \
    .fallback = (value), .arg = "N", TRAIN(field)
#define REAL(label, field, lo, hi, value)                                              \
    .name = (label), .kind = OPTION_REAL, .min = (lo), .max = (hi),                    \
    .fallback = (value), .arg = "X", TRAIN(field)
#define CHOICE(label, field, list, value)                                              \
    .name = (label), .kind = OPTION_CHOICE, .words = (list), .fallback = (value),      \
    TRAIN(field)
#define FLAG(label, field)                                                             \
    .name = (label), .kind = OPTION_FLAG, .fallback = "off", TRAIN(field)
#define TEXT(label, field, word, value)                                                \
    .name = (label), .kind = OPTION_TEXT, .arg = (word), .fallback = (value),          \
    TRAIN(field)

static const option_spec train_spec[] = {
    HEADING("Run"),
    {TEXT("data", data, "PATH", "/usr/include"), .help = "file or folder of text"},
    {TEXT("out", out, "DIR", "build/demo"), .help = "folder for all that is written"},
    {TEXT("config", config, "FILE", ""),
     .help = "options from a JSON object; the command line wins"},
    {INT64("steps", steps, 1, LARGE, "1200"), .help = "optimiser steps"},
    {INT64("seed", seed, 0, 9007199254740992.0, "1"),
     .help = "of weights and order of data"},
    {REAL("time-limit", time_limit_s, 0, LARGE, "0"),
     .help = "seconds of training after which to stop; 0: none"},
    {FLAG("dry-run", dry_run),
     .help = "check options and data, say what would run, and stop"},
    {FLAG("check", check),
     .help = "find every use of memory that no event orders; slower"},
    HEADING("Model"),
    {INT("layers", model.layers, 1, 1024, "4"), .help = "layers, dense ones included"},
    {INT("width", model.width, 2, 65536, "128"), .help = "channels of a token"},
    {INT("heads", model.heads, 1, 1024, "4"),
     .help = "attention heads; an even share of the width each"},
    {INT("experts", model.experts, 1, 4096, "8"),
     .help = "experts of a layer, over all ranks"},
    {INT("top-k", model.top_k, 1, 64, "2"), .help = "experts that a token visits"},
    {INT("expert-width", model.expert_width, 1, 262144, "128"),
     .help = "hidden channels of an expert"},
    {INT("dense-layers", model.dense_layers, 0, 1024, "1"),
     .help = "leading layers without experts"},
    {INT("dense-width", model.dense_width, 1, 262144, "384"),
     .help = "hidden channels of a dense layer"},
    {INT("shared-width", model.shared_width, 0, 262144, "0"),
     .help = "hidden channels of the shared expert; 0: none"},
    {INT("seq", model.seq, 1, 1048576, "64"), .help = "bytes in a sequence"},
    {CHOICE("tie-embeddings", model.tie_embeddings, off_on, "off"),
     .help = "one matrix for input and output"},
    {CHOICE("precision", precision, precisions, "f32"),
     .help = "of weights and activations; sums and the optimiser's are f32"},
    {CHOICE("mtp", model.mtp, off_on, "off"),
     .help = "one more layer learns to guess the byte after the next"},
    HEADING("Ranks and batch"),
    {INT("pp", pp, 1, OPTION_RANKS, "1"),
     .help = "pipeline ranks: threads, or under mpirun processes"},
    {INT("vp", vp, 0, 64, "0"), .shown = "1, or as the schedule has it",
     .help = "stages of the model on each of them"},
    {INT("ep", ep, 1, OPTION_RANKS, "2"),
     .help = "ranks that share the experts of a stage"},
    {INT("dp", dp, 0, OPTION_RANKS, "0"), .shown = "as --ep",
     .help = "data-parallel ranks of a stage; a multiple of --ep"},
    {INT("microbatches", microbatches, 1, 1048576, "8"),
     .help = "microbatches of a step"},
    {INT("micro-batch-size", micro_batch_size, 1, 65536, "2"),
     .help = "sequences in one, on each rank"},
    {INT("global-batch-size", global_batch_size, 0, LARGE, "0"),
     .shown = "microbatches x micro-batch-size x dp",
     .help = "sequences of a step, over all ranks"},
    {INT("cores", cores, 0, 4096, "0"), .shown = "all that the process may use",
     .help = "processor cores, over all ranks"},
    {TEXT("device", device, "host|cuda", "host"), .words = devices,
     .help = "where kernels run; see headrace info"},
    HEADING("Schedule"),
    {CHOICE("overlap", overlap, off_on, "on"), .shown = "on; at --ep 1 off",
     .help = "hide all-to-all behind another microbatch"},
    {CHOICE("delay-wgrad", delay_wgrad, off_on, "on"),
     .help = "weight gradients after the transfers they would hold up"},
    {CHOICE("dispatcher", dispatcher, dispatchers, "alltoall"),
     .help = "how tokens reach the experts of other ranks"},
    {REAL("capacity-factor", capacity_factor, 0, 65536, "0"),
     .shown = "as --ep: nothing can overflow",
     .help = "rows that a rank has room for, over those it sends; symmetric only"},
    {REAL("link-gbps", link_gbps, 0, 1e6, "2.7"),
     .help = "imitated link of threads, Gbit/s each way a rank; 0: none"},
    {REAL("link-us", link_us, 0, 1e7, "20"),
     .help = "imitated latency of a transfer, microseconds"},
    {REAL("timeout", timeout_s, 0.001, 1e6, "300"),
     .help = "seconds that ranks wait for each other"},
    {TEXT("schedule", schedule, "NAME|FILE", ""),
     .shown = "combined; without overlap 1f1b, or interleaved",
     .help = "order of forwards and backwards, as in headrace plan, or auto"},
    {TEXT("layout", layout, "TEXT", ""), .shown = "even",
     .help = "what each stage holds, as in Et*3|(tt|)*2tL"},
    {FLAG("recompute", recompute),
     .help = "keep a stage's input alone, and do its forward again in backward"},
    {TEXT("profile", profile, "FILE", ""),
     .help = "write there what each layer costs, for: headrace plan"},
    HEADING("Optimiser"),
    {REAL("lr", lr, 1e-9, 10, "3e-3"), .help = "highest learning rate"},
    {REAL("min-lr", min_lr, 0, 10, "0"), .shown = "a tenth of --lr",
     .help = "learning rate at the end of the cosine"},
    {INT("warmup", warmup, 0, LARGE, "20"), .shown = "20, or a tenth of --steps",
     .help = "steps of linear warm-up"},
    {REAL("weight-decay", weight_decay, 0, 100, "0.1"),
     .help = "decoupled, of matrices"},
    {REAL("clip", clip, 0, LARGE, "1"), .help = "largest global norm; 0: no limit"},
    {CHOICE("shard-optimizer", shard_optimizer, off_on, "off"),
     .help = "each data-parallel rank keeps a share of the moments, and updates it"},
    {REAL("aux-coef", aux_coef, 0, 1000, "0.01"),
     .help = "weight of the load-balance loss"},
    {REAL("mtp-coef", mtp_coef, 1e-6, 1000, "0.1"),
     .help = "weight of the loss of --mtp"},
    {CHOICE("loss-scale-mode", loss_scale, loss_modes, "mean_microbatch"),
     .help = "what the loss is divided by"},
    HEADING("Evaluation and checkpoints"),
    {INT("eval-every", eval_every, 0, LARGE, "200"),
     .help = "steps between validations; 0: only at the end"},
    {INT("eval-batches", eval_batches, 1, 65536, "16"),
     .help = "microbatches of a validation"},
    {INT("checkpoint-every", checkpoint_every, 0, LARGE, "200"),
     .help = "steps between checkpoints; 0: only at the end"},
    {INT("keep", keep, 1, 1000, "1"), .help = "checkpoints to keep"},
    {FLAG("resume", resume), .help = "go on from the checkpoint in --out"},
};

#undef TRAIN
#define TRAIN(field) AT(sample_options, field)

static const option_spec sample_spec[] = {
    HEADING("Sample"),
    {TEXT("checkpoint", checkpoint, "PATH", "build/demo"),
     .help = "file, its folder, or what --out of train named"},
    {TEXT("prompt", prompt, "TEXT", "#include <"), .help = "text to go on from"},
    {INT("length", length, 1, 1000000, "600"), .help = "bytes to generate"},
    {REAL("temperature", temperature, 0, 100, "0.7"),
     .help = "0: always the likeliest byte"},
    {INT("top-k", top_k, 0, 256, "0"),
     .help = "likeliest bytes to choose among; 0: all"},
    {INT64("seed", seed, 0, 9007199254740992.0, "1"), .help = "of the choice"},
    {TEXT("out", out, "FILE", ""), .help = "write there, not to standard output"},
    {TEXT("config", config, "FILE", ""),
     .help = "options from a JSON object; the command line wins"},
};

#undef TRAIN
#define TRAIN(field) AT(plan_options, field)
#define MOST_BYTES   68719476736.0 /* of a stage: what the library takes */

static const option_spec plan_spec[] = {
    HEADING("Sizes"),
    {INT("pp", pp, 1, 4096, "4"), .help = "pipeline ranks"},
    {INT("vp", vp, 0, 64, "0"), .shown = "2, or as the schedule has it",
     .help = "model chunks of a rank; 0: default"},
    {INT("microbatches", microbatches, 1, 65536, "8"),
     .help = "microbatches of a step"},
    {INT("group", group, 0, 65536, "0"), .shown = "as the schedule does it",
     .help = "microbatches that go through a chunk before the next"},
    HEADING("Costs of a microbatch, on all that a rank holds of the model"),
    {REAL("cost-f", cost_f, 0, 1e6, "1"), .help = "forward, in units of your choice"},
    {REAL("cost-i", cost_i, 0, 1e6, "1"), .help = "backward for the input"},
    {REAL("cost-w", cost_w, 0, 1e6, "1"), .help = "backward for the weights"},
    {REAL("transfer", transfer, 0, 1e6, "0"), .help = "of a result to another rank"},
    {REAL("latency", latency, 0, 1e6, "0"),
     .help = "until it is there, beside the transfer"},
    {FLAG("queue", queue),
     .help = "transfers from a rank to another wait for each other"},
    {INT("pair-discount", pair_discount, 0, 100, "0"),
     .help = "percent that an overlapped pair saves"},
    HEADING("Memory of a rank"),
    {INT64("activation-bytes", activation_bytes, 0, MOST_BYTES, "0"),
     .help = "of a microbatch, held from forward to backward"},
    {INT64("stash-bytes", stash_bytes, 0, MOST_BYTES, "0"),
     .shown = "as --activation-bytes",
     .help = "of these, held on until the weight gradients are done"},
    {INT64("boundary-bytes", boundary_bytes, 0, MOST_BYTES, "0"),
     .help = "the input of a stage, all that is held with --recompute"},
    {TEXT("recompute", recompute, "STAGES", "none"),
     .help = "do the forward again in backward: all, or stages as 0,4-7"},
    {INT64("param-bytes", param_bytes, 0, 9007199254740992.0, "0"),
     .help = "parameters, with gradients and optimiser state"},
    {INT64("memory-limit", memory_limit, 0, 9007199254740992.0, "0"),
     .help = "bytes of both together; 0: no limit"},
    HEADING("Measured costs"),
    {TEXT("profile", profile, "FILE", ""),
     .help = "costs and bytes of each layer (docs/plan.md); units are milliseconds"},
    {TEXT("layout", layout, "TEXT", ""),
     .shown = "an even share of the forward and backward",
     .help = "what each stage holds of it, as \"Et*3|t*4|t*3L\""},
    HEADING("Search"),
    {FLAG("optimise", optimise),
     .help = "search for the best within the limit; it comes above the table"},
    {INT64("steps", steps, 0, 9007199254740992.0, "0"),
     .shown = "up to a second's worth", .help = "changes to try"},
    {REAL("time-limit", time_limit_s, 0, LARGE, "0"),
     .help = "seconds after which to stop; 0: none"},
    {INT64("seed", seed, 0, 9007199254740992.0, "0"), .help = "of the search"},
    HEADING("One schedule"),
    {TEXT("schedule", schedule, "NAME", ""),
     .help = "draw it; else a table of all; auto: search for it"},
    {TEXT("out", out, "FILE", ""), .help = "picture, .svg or .png; else text lanes"},
    {TEXT("csv", csv, "FILE", ""), .help = "write it as PyTorch's pipelining reads it"},
    {TEXT("text", text, "FILE", ""),
     .help = "write it with sizes, placement and costs"},
    {TEXT("check", check, "FILE", ""),
     .help = "say whether this schedule is sound (that CSV, or our text)"},
};

static const option_spec info_spec[] = {
    {.name = "json",
     .kind = OPTION_FLAG,
     .fallback = "off",
     AT(info_options, json),
     .help = "one JSON object instead of text"},
};

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))
_Static_assert(COUNT(train_spec) <= 64, "an option_set has 64 bits");

const option_table hr_app_train_table = {
    "train", "Train a byte-level mixture-of-experts GPT over several ranks.",
    train_spec, COUNT(train_spec)};
const option_table hr_app_sample_table = {
    "sample", "Generate text with the model of a checkpoint.", sample_spec,
    COUNT(sample_spec)};
const option_table hr_app_plan_table = {
    "plan",
    "Compare pipeline schedules, draw one, or check somebody else's; nothing is run.",
    plan_spec, COUNT(plan_spec)};
const option_table hr_app_info_table = {
    "info", "What this build and this machine offer.", info_spec, COUNT(info_spec)};
