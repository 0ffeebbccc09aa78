/* ZB-V: two chunks a rank, laid out as a V, so that the last rank turns around without a transfer
 * and the first rank's loss is near. Written for at least 2 p - 1 microbatches; with fewer it
 * is the order of that many, without those that are not there. */
#include "schedule/best.h" /* hr__like */
#include "schedule/build/v_orders.h"

typedef struct rank_state {
    hr__build *b;
    int rank;
    int f[2], i[2], w[2]; /* done, by chunk */
} rank_state;

static void put(rank_state *r, hr_action_kind kind, int chunk)
{
    int *count = kind == HR_ACTION_F ? r->f : kind == HR_ACTION_I ? r->i : r->w;
    int stage = chunk == 0 ? r->rank : 2 * r->b->p - 1 - r->rank;
    int m = count[chunk]++;
    if (m < r->b->m)
        hr__put(r->b, r->rank, kind, stage, m);
}

static void backward(rank_state *r, int chunk)
{
    put(r, HR_ACTION_I, chunk);
    put(r, HR_ACTION_W, chunk);
}

static void order(hr__build *b, int rank)
{
    rank_state r = {.b = b, .rank = rank};
    int after = b->p - rank;
    int m = b->m > 2 * b->p - 1 ? b->m : 2 * b->p - 1;
    for (int k = 0; k < 2 * after - 1; k++)
        put(&r, HR_ACTION_F, 0);
    for (int k = 0; k < rank; k++) {
        put(&r, HR_ACTION_F, 1);
        put(&r, HR_ACTION_F, 0);
    }
    for (int k = 0; k < after; k++) {
        put(&r, HR_ACTION_F, 1);
        backward(&r, 1);
    }
    while (r.f[1] < r.f[0] || r.f[0] < m) {
        if (r.f[0] < m)
            put(&r, HR_ACTION_F, 0);
        backward(&r, 0);
        put(&r, HR_ACTION_F, 1);
        backward(&r, 1);
    }
    for (int k = 0; k < rank; k++) {
        put(&r, HR_ACTION_I, 0);
        put(&r, HR_ACTION_I, 1);
    }
    for (int k = 0; k < after; k++)
        backward(&r, 0);
    while (r.w[1] < r.i[1])
        put(&r, HR_ACTION_W, 1);
    while (r.w[0] < r.i[0])
        put(&r, HR_ACTION_W, 0);
}

/* The known order; with a limit of activations what is best within it. */
static void orders(hr__build *b)
{
    hr__build known = *b;
    b->st = hr__like(b->s, &known.s);
    if (b->st < 0)
        return;
    for (int r = 0; r < b->p; r++)
        order(&known, r);
    b->st = known.st;
    if (b->o.max_act > 0 && b->st >= 0) {
        hr__v_try(b, known.s);
        if (b->st >= 0)
            hr__v_orders(b);
        return;
    }
    hr_schedule_destroy(b->s);
    b->s = known.s;
}

static hr__answer takes(const hr_generate_opts *o)
{
    return o->max_act == 0 ? HR__YES : hr__v_takes(o);
}

const hr__builder hr__build_zbv = {
    .name = "zbv",
    .about = "zero bubble on a V of two chunks a rank",
    .chunks = 2,
    .placement = HR_PLACEMENT_V,
    .v_orders = true,
    .takes = takes,
    .rule = "a limit of at least two activations a rank",
    .orders = orders,
};
