/* p2p_order.json: what one call of the communicator between stages posts on each rank, and who with.
 *
 * Here that call is the transfers that lowering puts between two computations. Its peers are taken from
 * lowered schedules: calls of a pipeline without virtual stages, which end at the first and last rank,
 * from 1f1b; the others, which go round the ring, from two chunks a rank. Compared between two waits as
 * a set; then posted as one batch a rank, with the other end of each transfer on its peer, so that each
 * payload has to come. What is in a record and not compared:
 * - The order within a call, and even and odd ranks that post in turns: a batch cannot deadlock.
 * - Which group (`pp`, `world`), `batch`, and `sync` after one: a channel of its own for each ordered pair
 *   of ranks, on a stream, is none of these. */
#include "case_pipeline_step.h"
#include "compare.h"

#include <string.h>

enum { WORLD = 64, MESSAGES = 2 };

/* What one call has on one rank. */
typedef struct posted {
    bool has;
    int peer; /* in the group */
} posted;

typedef struct call {
    int ranks[PIPELINE_RANKS], n; /* of the group, in the world */
    posted post[PIPELINE_RANKS][TRANSFERS];
    int messages; /* one after the other; lists have two */
    char wrong[PIPELINE_RANKS][100];
} call;

/* ---- what is called ------------------------------------------------------------------------------ */
/* Which of the four a call has; those behind a point say which operands are there. */
static const struct method {
    const char *name;
    bool ring;
    int messages;
    const char *operand[TRANSFERS]; /* "": always; NULL: never */
} methods[] = {
    {"send_forward", false, 1, {[SEND_F] = ""}},
    {"send_backward", false, 1, {[SEND_B] = ""}},
    {"recv_forward", false, 1, {[RECV_F] = ""}},
    {"recv_backward", false, 1, {[RECV_B] = ""}},
    {"send_forward_list", false, 2, {[SEND_F] = ""}},
    {"recv_forward_list", false, 2, {[RECV_F] = ""}},
    {"send_forward_recv_backward", false, 1, {[SEND_F] = "", [RECV_B] = ""}},
    {"send_backward_recv_forward", false, 1, {[SEND_B] = "", [RECV_F] = ""}},
    {"send_forward_recv_forward", true, 1, {[SEND_F] = "s1", [RECV_F] = "r1"}},
    {"send_backward_recv_backward", true, 1, {[SEND_B] = "s1", [RECV_B] = "r1"}},
    {"send_forward_backward_recv_forward_backward",
     true,
     1,
     {"sn1", "sp1", "rp1", "rn1"}},
};

static const struct method *method_of(const char *text, const char **operands)
{
    size_t n = strcspn(text, ".");
    *operands = text + n;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strlen(methods[i].name) == n && strncmp(methods[i].name, text, n) == 0)
            return &methods[i];
    return NULL;
}

/* ---- who with ------------------------------------------------------------------------------------ */
static const struct way {
    hr_action_kind kind;
    int towards; /* stages along the model */
    transfer other;
    const char *handle;
} ways[] = {
    [SEND_F] = {HR_ACTION_SEND_F, 1, RECV_F, "send_next"},
    [SEND_B] = {HR_ACTION_SEND_B, -1, RECV_B, "send_prev"},
    [RECV_F] = {HR_ACTION_RECV_F, -1, SEND_F, "recv_prev"},
    [RECV_B] = {HR_ACTION_RECV_B, 1, SEND_B, "recv_next"},
};

/* HR_NO_RANK: nobody. */
static int peer_of(const hr_schedule *s, int rank, transfer t)
{
    size_t n;
    const hr_action *a = hr_schedule_order(s, rank, &n);
    for (size_t i = 0; i < n; i++)
        if (a[i].kind == ways[t].kind)
            return hr_schedule_rank_of(s, a[i].stage + ways[t].towards,
                                       a[i].microbatch);
    return HR_NO_RANK;
}

static void find_peers(call *c, const struct method *m, const char *operands)
{
    hr_schedule *s, *lowered;
    hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = c->n,
                          .chunks = m->ring ? 2 : 1, .microbatches = c->n};
    rec_need(hr_schedule_generate(m->ring ? "interleaved" : "1f1b", &o, &s),
             "schedule");
    rec_need(hr_schedule_lower(s, NULL, &lowered), "lowering");
    for (int r = 0; r < c->n; r++)
        for (int t = 0; t < TRANSFERS; t++) {
            posted *p = &c->post[r][t];
            p->peer = peer_of(lowered, r, (transfer)t);
            p->has = p->peer != HR_NO_RANK && m->operand[t] &&
                     strstr(operands, m->operand[t]) != NULL;
        }
    hr_schedule_destroy(lowered);
    hr_schedule_destroy(s);
}

/* ---- the recorded ones --------------------------------------------------------------------------- */
static bool take(json_t *list, json_t *what)
{
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v)
    {
        if (json_equal(v, what)) {
            json_array_remove(list, i);
            return true;
        }
    }
    return false;
}

/* Takes both: each is in the other as often. */
static bool same_set(json_t *a, json_t *b)
{
    bool same = json_array_size(a) == json_array_size(b);
    while (same && json_array_size(a) > 0) {
        same = take(b, json_array_get(a, 0));
        json_array_remove(a, 0);
    }
    json_decref(a);
    json_decref(b);
    return same;
}

/* "isend", "irecv" of one message, without their group; from *i on, which moves behind it. */
static json_t *next_message(json_t *trace, size_t *i)
{
    json_t *set = json_array();
    bool waited = false;
    for (; *i < json_array_size(trace); (*i)++) {
        json_t *record = json_array_get(trace, *i);
        const char *kind = json_string_value(json_array_get(record, 0));
        bool posts = kind && (strcmp(kind, "isend") == 0 || strcmp(kind, "irecv") == 0);
        if (posts && waited)
            break;
        waited = waited || (kind && strcmp(kind, "reqwait") == 0);
        if (posts)
            json_array_append_new(set,
                                  json_pack("[sOO*]", kind, json_array_get(record, 1),
                                            json_array_get(record, 3)));
    }
    return set;
}

static json_t *our_message(const call *c, int rank, int message)
{
    const char *forward = message == 0 ? "y" : "z";
    json_t *set = json_array();
    for (int t = 0; t < TRANSFERS; t++) {
        const posted *p = &c->post[rank][t];
        if (!p->has || message >= c->messages)
            continue;
        int peer = c->ranks[p->peer];
        bool send = t == SEND_F || t == SEND_B;
        const char *payload = t == SEND_F ? forward : "dx";
        json_array_append_new(set, send ? json_pack("[sis]", "isend", peer, payload)
                                        : json_pack("[si]", "irecv", peer));
    }
    return set;
}

static json_t *our_handles(const call *c, int rank)
{
    json_t *set = json_array();
    for (int t = 0; t < TRANSFERS; t++)
        if (c->post[rank][t].has)
            json_array_append_new(set, json_string(ways[t].handle));
    return set;
}

static verdict compare_row(const call *c, int rank, json_t *row, outcome *o)
{
    json_t *trace = json_array_get(row, 1), *handles = json_array_get(row, 2);
    size_t at = 0;
    for (int k = 0; k <= MESSAGES; k++)
        if (!same_set(next_message(trace, &at), our_message(c, rank, k)))
            return out_differs(o, "rank %d: message %d has other transfers",
                               c->ranks[rank], k);
    if (handles && !same_set(json_deep_copy(handles), our_handles(c, rank)))
        return out_differs(o, "rank %d: other handles", c->ranks[rank]);
    return EQUAL;
}

/* ---- posting them -------------------------------------------------------------------------------- */
/* Of the rank that sends it. */
static int value_of(int rank, transfer sent, int message)
{
    return (rank * TRANSFERS + (int)sent) * MESSAGES + message;
}

/* Or has its peer the other end? */
static bool takes_part(const call *c, int rank, transfer t)
{
    const posted *p = &c->post[rank][t];
    return p->has || (p->peer != HR_NO_RANK && c->post[p->peer][ways[t].other].has);
}

static hr_status post(call *c, hr_group *g, int message)
{
    int rank = hr_group_rank(g), n = 0, buf[TRANSFERS];
    hr_p2p op[TRANSFERS];
    hr_stream *s = hr_stream_current();
    for (int t = 0; t < TRANSFERS; t++) {
        bool send = t == SEND_F || t == SEND_B;
        buf[t] = send ? value_of(rank, (transfer)t, message) : -1;
        if (takes_part(c, rank, (transfer)t))
            op[n++] = (hr_p2p){send, c->post[rank][t].peer, &buf[t], sizeof buf[t]};
    }
    hr_status st = hr_group_batch(g, op, n, s);
    if (st >= 0)
        st = hr_stream_synchronize(s);
    for (int t = RECV_F; t <= RECV_B && st >= 0; t++) {
        int want = value_of(c->post[rank][t].peer, ways[t].other, message);
        if (takes_part(c, rank, (transfer)t) && buf[t] != want)
            snprintf(c->wrong[rank], sizeof c->wrong[rank], "%s got %d, not %d",
                     ways[t].handle, buf[t], want);
    }
    return st;
}

static hr_status each_rank(hr_group *world, void *arg)
{
    call *c = arg;
    hr_group *g;
    hr_status st = hr_group_create(world, c->ranks, c->n, &g);
    if (st < 0 || g == NULL)
        return st;
    for (int k = 0; k < c->messages && st >= 0; k++)
        st = post(c, g, k);
    hr_group_release(g);
    return st;
}

static verdict post_all(call *c, outcome *o)
{
    int world = 0;
    for (int r = 0; r < c->n; r++)
        world = c->ranks[r] >= world ? c->ranks[r] + 1 : world;
    const hr_local_opts quick = {HR_INIT(hr_local_opts), .timeout_s = 30};
    if (hr_local_run(world, &quick, each_rank, c) < 0)
        return out_differs(o, "%s", hr_last_error());
    for (int r = 0; r < c->n; r++)
        if (c->wrong[r][0])
            return out_differs(o, "rank %d: %s", c->ranks[r], c->wrong[r]);
    return EQUAL;
}

/* ---- a case -------------------------------------------------------------------------------------- */
static bool read_group(json_t *group, call *c)
{
    size_t i;
    json_t *v;
    if (json_array_size(group) > PIPELINE_RANKS)
        return false;
    json_array_foreach(group, i, v)
    {
        c->ranks[c->n++] = (int)json_integer_value(v);
        if (c->ranks[i] < 0 || c->ranks[i] >= WORLD)
            return false;
    }
    return c->n > 1;
}

static bool has_error(json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (json_object_get(json_array_get(row, 2), "err"))
            return true;
    }
    return false;
}

verdict run_p2p_case(json_t *c, outcome *o)
{
    call k = {.n = 0};
    json_t *rows = json_object_get(c, "rows"), *row;
    const char *operands, *text = json_string_value(json_object_get(c, "call"));
    const struct method *m = text ? method_of(text, &operands) : NULL;
    size_t i;
    if (m == NULL || !read_group(json_object_get(c, "group"), &k))
        return out_differs(o, "no call or no group that is known");
    if (has_error(rows))
        return out_left(o, "batches that overlap refused: here all transfers are both");
    k.messages = m->messages;
    find_peers(&k, m, operands);
    json_array_foreach(rows, i, row)
    {
        if ((int)i >= k.n || compare_row(&k, (int)i, row, o) != EQUAL)
            return DIFFERENT;
    }
    return post_all(&k, o);
}
