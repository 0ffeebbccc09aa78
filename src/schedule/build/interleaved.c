/* Interleaved 1F1B: several chunks a rank, microbatches in groups (Megatron's rules). A group goes
 * through a chunk before the next chunk; backwards visit the chunks from the last. The
 * combined schedule runs ahead by one forward more, so that each forward of the steady state
 * can share a slot with a backward of another microbatch: the transfers of the one are
 * hidden behind the arithmetic of the other. */
#include "base/try.h" /* HR_NEED */
#include "schedule/build/builder.h"

void hr__group_table(int microbatches, int chunks, int group, int k, int *microbatch,
                     int *chunk)
{
    int64_t whole = (int64_t)group * chunks; /* entries of a full group */
    int first = (int)(k / whole) * group;
    int here = hr__min(group, microbatches - first);
    int within = (int)(k % whole);
    *microbatch = first + within % here;
    *chunk = within / here;
}

hr_status hr_get_forward_backward_func(int ranks, int chunks, const char **name)
{
    HR_NEED(name);
    *name = NULL;
    if (ranks < 0 || chunks < 0)
        return hr_fail(HR_ERR_INVALID, "schedule_size",
                       "a schedule for %d ranks of %d chunks: neither can be below 0",
                       ranks, chunks);
    if (ranks > 1)
        *name = chunks > 0 ? "interleaved" : "1f1b";
    return HR_OK;
}

hr_status hr_get_schedule_table(int microbatches, int chunks, int group, int k,
                                int *microbatch, int *chunk)
{
    HR_NEED(microbatch);
    HR_NEED(chunk);
    if (microbatches < 0 || chunks < 1 || group < 1 || k < 0 ||
        k >= (int64_t)microbatches * chunks)
        return hr_fail(
            HR_ERR_INVALID, "table_range",
            "entry %d of the table of %d microbatches, %d chunks, groups of %d", k,
            microbatches, chunks, group);
    hr__group_table(microbatches, chunks, group, k, microbatch, chunk);
    return HR_OK;
}

/* Forwards of an interleaved rank before its first backward, if there are as many. */
static int64_t ahead(const hr_generate_opts *o, int rank)
{
    return 2 * (int64_t)(o->ranks - 1 - rank) + (int64_t)(o->chunks - 1) * o->group +
           o->expert_overlap;
}

void hr_get_pp_rank_microbatches(const hr_generate_opts *opts, int rank,
                                 bool interleaved, bool forward_only,
                                 hr_rank_microbatches *out)
{
    int total = opts->microbatches * opts->chunks;
    int64_t warmup = interleaved ? ahead(opts, rank) : opts->ranks - 1 - rank;
    if (opts->ranks == 1)
        warmup = 0;
    *out = (hr_rank_microbatches){.total = total, .warmup = total};
    out->all_warmup = forward_only || warmup >= total;
    if (!out->all_warmup)
        out->warmup = (int)warmup;
    out->remaining = total - out->warmup;
}

/* A last group that is smaller than the ring of ranks may leave a rank waiting for itself, unless
 * there is no other group; so may groups that all are. */
hr__answer hr__interleaved_takes(const hr_generate_opts *o)
{
    if (o->chunks == 1 || o->group >= o->microbatches)
        return HR__YES;
    int rest = o->microbatches % o->group;
    return o->group >= o->ranks && (rest == 0 || rest >= o->ranks) ? HR__YES
                                                                   : HR__TRY_IT;
}

/* The smallest group that is possible. */
void hr__interleaved_defaults(hr_generate_opts *o)
{
    if (o->group != 0)
        return;
    o->group = hr__min(o->ranks, o->microbatches);
    while (hr__interleaved_takes(o) != HR__YES)
        o->group++;
}

static void put(hr__build *b, int rank, hr_action_kind kind, int k)
{
    int m;
    int c;
    hr__group_table(b->m, b->v, b->o.group, k, &m, &c);
    hr__put(b, rank, kind, (kind == HR_ACTION_F ? c : b->v - 1 - c) * b->p + rank, m);
}

static void put_both(hr__build *b, int rank, int f, int k)
{
    int m[2];
    int c[2];
    hr__group_table(b->m, b->v, b->o.group, f, &m[0], &c[0]);
    hr__group_table(b->m, b->v, b->o.group, k, &m[1], &c[1]);
    hr__put_pair(b, rank, HR_ACTION_F, c[0] * b->p + rank, m[0], HR_ACTION_B,
                 (b->v - 1 - c[1]) * b->p + rank, m[1]);
}

void hr__interleaved_order(hr__build *b, int rank, bool pairs)
{
    int total = b->m * b->v;
    int64_t want = ahead(&b->o, rank);
    int warmup = want < total ? (int)want : total;
    for (int k = 0; k < warmup; k++)
        put(b, rank, HR_ACTION_F, k);
    for (int k = 0; k < total; k++) {
        if (k + warmup >= total) {
            put(b, rank, HR_ACTION_B, k);
        } else if (pairs) {
            put_both(b, rank, k + warmup, k);
        } else {
            put(b, rank, HR_ACTION_F, k + warmup);
            put(b, rank, HR_ACTION_B, k);
        }
    }
}

static void order(hr__build *b, int rank)
{
    hr__interleaved_order(b, rank, false);
}

const hr__builder hr__build_interleaved = {
    .name = "interleaved",
    .about = "1F1B over several chunks a rank, in groups of microbatches",
    .defaults = hr__interleaved_defaults,
    .takes = hr__interleaved_takes,
    .rule = "groups of no fewer microbatches than ranks, the last one too",
    .order = order,
};
