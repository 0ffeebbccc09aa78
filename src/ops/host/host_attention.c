/* Host kernels of attention: a part is one head of one sequence. */
#include "base/try.h"
#include "ops/host/host_wide.h"

struct attention {
    hr__attention_args args;
    const float *rotary;
};

static hr__head head_of(const struct attention *all, int i)
{
    const hr__attention_args *a = &all->args;
    int64_t sequence = i / a->heads, head = i % a->heads, d = a->head_width;
    int64_t width = a->heads * d, row = sequence * a->seq_len;
    int64_t at = row * 3 * width + head * d, out_at = row * width + head * d;
    hr__head h = {
        .q = a->qkv + at,
        .k = a->qkv + at + width,
        .v = a->qkv + at + 2 * width,
        .stride = 3 * width,
        .out = a->out + out_at,
        .out_stride = width,
        .lse = a->lse + i * a->seq_len,
        .rotary = all->rotary,
        .seq_len = a->seq_len,
        .width = d,
    };
    if (a->dqkv) {
        h.dq = a->dqkv + at;
        h.dk = h.dq + width;
        h.dv = h.dk + width;
        h.dout = a->dout + out_at;
    }
    return h;
}

static hr_status attention_part(void *arg, int i)
{
    const struct attention *a = arg;
    const hr__vec *vec = hr__vec_best();
    bool back = a->args.dqkv != NULL;
    hr__head h = head_of(a, i);
    h.scratch =
        hr__scratch(vec->attention_scratch(h.seq_len, h.width, back) * sizeof(float));
    if (!h.scratch)
        return hr_fail(HR_ERR_NOMEM, NULL, "attention: no memory for scratch");
    (back ? vec->attention_back : vec->attention)(&h);
    return HR_OK;
}

static hr_status wide(hr__attention_args a, hr_team *team)
{
    int64_t count = a.sequences * a.seq_len * a.heads * a.head_width;
    return HR__WIDE_RUN(hr__host_attention, a, team, {&a.qkv, 3 * count, HR_READ},
                        {&a.out, count, a.dqkv ? HR_READ : HR_WRITE},
                        {&a.dout, count, HR_READ}, {&a.dqkv, 3 * count, HR_WRITE});
}

hr_status hr__host_attention(const void *args, hr_team *team)
{
    struct attention all = {.args = *(const hr__attention_args *)args};
    const hr__attention_args *a = &all.args;
    if (a->sequences == 0) /* then seq_len is any number */
        return HR_OK;
    if (a->type == HR_BF16)
        return wide(all.args, team);
    HR_TRY(hr__rotary_table(a->seq_len, a->head_width, a->rope_base, &all.rotary));
    return hr__parts_run(team, a->sequences * a->heads, attention_part, &all);
}

hr_status hr__host_attention_back(const void *args, hr_team *team)
{
    return hr__host_attention(args, team);
}
