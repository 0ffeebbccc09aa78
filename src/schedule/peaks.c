/* Peaks of a rank's order. */
#include "schedule/peaks.h"

void hr__held_take(hr__held *h, const hr_action *a, const hr_stage_cost *c)
{
    switch (a->kind) {
    case HR_ACTION_F:
        h->act++;
        h->act_i++;
        h->bytes += c->act_bytes;
        break;
    case HR_ACTION_B:
    case HR_ACTION_I:
        h->wstash += a->kind == HR_ACTION_I;
        h->bytes += c->recompute ? c->act_bytes - c->boundary_bytes : 0;
        break;
    default:
        break;
    }
}

void hr__held_give_back(hr__held *h, const hr_action *a, const hr_stage_cost *c)
{
    switch (a->kind) {
    case HR_ACTION_F:
        h->bytes -= c->recompute ? c->act_bytes - c->boundary_bytes : 0;
        break;
    case HR_ACTION_B:
        h->act--;
        h->act_i--;
        h->bytes -= c->act_bytes;
        break;
    case HR_ACTION_I:
        h->act_i--;
        h->bytes -= c->act_bytes - c->stash_bytes;
        break;
    case HR_ACTION_W:
        h->act--;
        h->wstash--;
        h->bytes -= c->stash_bytes;
        break;
    default:
        break;
    }
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

void hr__peaks(const hr_schedule *s, int rank, hr_rank_figures *out)
{
    const hr__order *o = &s->order[rank];
    hr__held h = {0};
    out->peak_act = out->peak_act_i = out->peak_wstash = 0;
    out->peak_bytes = 0;
    for (size_t i = 0; i < o->n; i += (size_t)hr__slot(&o->a[i])) {
        const hr_action *a = &o->a[i];
        int n = hr__slot(a);
        for (int k = 0; k < n; k++)
            hr__held_take(&h, &a[k], &s->cost[a[k].stage]);
        out->peak_act = larger(out->peak_act, h.act);
        out->peak_act_i = larger(out->peak_act_i, h.act_i);
        out->peak_wstash = larger(out->peak_wstash, h.wstash);
        if (h.bytes > out->peak_bytes)
            out->peak_bytes = h.bytes;
        for (int k = 0; k < n; k++)
            hr__held_give_back(&h, &a[k], &s->cost[a[k].stage]);
    }
}

hr__held hr__most_held(const hr_schedule *s)
{
    hr__held most = {0};
    for (int r = 0; r < s->ranks; r++) {
        hr_rank_figures f;
        hr__peaks(s, r, &f);
        most.act = larger(most.act, f.peak_act);
        most.act_i = larger(most.act_i, f.peak_act_i);
        most.wstash = larger(most.wstash, f.peak_wstash);
        most.bytes = f.peak_bytes > most.bytes ? f.peak_bytes : most.bytes;
    }
    return most;
}
