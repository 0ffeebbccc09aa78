/* train_save.c: the state of a run to a checkpoint and back. Each rank writes its own pieces
 * (state_pieces.h), all at the same time, and takes from whatever pieces there are what it holds; so a
 * checkpoint depends on no layout of ranks and stages, and no rank has more than one tensor of it in
 * its memory. Between ranks go notes alone.
 */
#include "checkpoint.h"
#include "host_name.h"
#include "share.h"
#include "state_pieces.h"
#include "train.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char WHAT[] = "checkpoint"; /* for failures of notes */

/* How writing ended on a rank. */
typedef struct note {
    int32_t status;
    char host[HOST_NAME];
    char said[512];
} note;

typedef struct saving {
    train_rank *r;
    checkpoint_info info;
    state_piece *pieces; /* those to write */
    st_tensor *tensors;  /* the same, as the file has them */
    char (*names)[STATE_NAME + 48];
    int n;
    char *writes; /* [ranks] */
    note *notes;  /* [ranks] */
    checkpoint_draft
        draft; /* of rank 0; what others know of it is where their files go */
    char whose[160];
} saving;

static int me(const saving *s)
{
    return hr_group_rank(s->r->groups.control);
}

static int ranks(const saving *s)
{
    return hr_group_size(s->r->groups.control);
}

/* ---- what this rank writes ------------------------------------------------------------------- */

/* A whole tensor is named as it is, a piece also by its elements; it keeps its rows if it has whole
 * ones. */
static void describe(const state_piece *p, char *name, size_t room, st_tensor *t)
{
    char whole[STATE_NAME];
    int64_t row = 1;
    for (int d = 1; d < p->whole->ndim; d++)
        row *= p->whole->shape[d];
    int64_t all = row * p->whole->shape[0], end = p->first + p->count;
    bool rows = p->whole->ndim > 1 && p->first % row == 0 && p->count % row == 0;
    *t = (st_tensor){.name = name, .dtype = ST_F32, .ndim = 1, .shape = {p->count}};
    if (rows || p->count == all) {
        t->ndim = p->whole->ndim;
        memcpy(t->shape, p->whole->shape, sizeof t->shape[0] * (size_t)t->ndim);
        t->shape[0] = p->count / row;
    }
    hr_app_state_name(p, whole);
    if (p->count == all)
        snprintf(name, room, "%s", whole);
    else
        snprintf(name, room, "%s[%lld:%lld]", whole, (long long)p->first,
                 (long long)end);
}

static hr_status list_mine(saving *s)
{
    int n;
    APP_TRY(hr_app_state_pieces(s->r, &s->pieces, &n));
    for (int i = 0; i < n; i++)
        if (s->pieces[i].writes && s->pieces[i].count > 0)
            s->pieces[s->n++] = s->pieces[i];
    s->tensors = calloc((size_t)s->n + 1, sizeof *s->tensors);
    s->names = calloc((size_t)s->n + 1, sizeof *s->names);
    s->writes = calloc((size_t)ranks(s), 1);
    s->notes = calloc((size_t)ranks(s), sizeof *s->notes);
    if (!s->tensors || !s->names || !s->writes || !s->notes)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to list %d tensors", s->n);
    for (int i = 0; i < s->n; i++)
        describe(&s->pieces[i], s->names[i], sizeof s->names[i], &s->tensors[i]);
    return HR_OK;
}

static hr_status fetch(void *saving_, int i, void *host)
{
    const state_piece *p = &((saving *)saving_)->pieces[i];
    hr_tensor *t;
    APP_TRY(hr_app_flat_part(p->flat, p->at, p->count, &t));
    hr_status st = hr_tensor_read(t, host, (size_t)p->count * sizeof(float));
    hr_tensor_release(t);
    return st;
}

/* ---- together -------------------------------------------------------------------------------- */

/* How many of the ranks below `rank` write a file. */
static int writers_below(const saving *s, int rank)
{
    int n = 0;
    for (int r = 0; r < rank; r++)
        n += s->writes[r];
    return n;
}

static hr_status write_mine(saving *s)
{
    checkpoint_part part = {.number = writers_below(s, me(s)) + 1,
                            .of = writers_below(s, ranks(s)),
                            .tensors = s->tensors,
                            .n = s->n,
                            .fetch = fetch,
                            .ctx = s};
    if (s->n == 0)
        return HR_OK;
    hr_status st = hr_app_checkpoint_write_part(s->draft.temp, &s->info, &part);
    if (st < 0 && access(s->draft.temp, F_OK) != 0)
        return hr_fail(st, hr_last_reason(),
                       "%s (rank 0 has made that folder: is --out one for all hosts?)",
                       hr_last_error());
    return st;
}

static void give_up(saving *s)
{
    if (me(s) == 0)
        hr_app_draft_discard(&s->draft);
}

/* All have written, or one has failed: then that one ends with what it met, and the others with what it
 * says. Nobody ends before, for the folder that is given up must have no more writers. */
static hr_status agree(saving *s, hr_status st)
{
    hr_group *g = s->r->groups.control;
    note mine = {.status = st};
    char said[sizeof mine.said];
    snprintf(mine.said, sizeof mine.said, "%s", st < 0 ? hr_last_error() : "");
    memcpy(said, mine.said, sizeof said);
    hr_app_host_name(mine.host);
    hr_status told = hr_app_share_each(g, WHAT, &mine, sizeof mine, s->notes);
    if (told < 0) { /* of some other cause; files may still come into the folder */
        give_up(s);
        return told;
    }
    int first = 0;
    while (first < ranks(s) && s->notes[first].status >= 0)
        first++;
    if (first == ranks(s))
        return HR_OK;
    give_up(s);
    if (first == me(s))
        return hr_fail(st, "file", "%s", said);
    APP_TRY(hr_barrier(g, hr_stream_current()));
    APP_TRY(hr_stream_synchronize(hr_stream_current()));
    return hr_fail((hr_status)s->notes[first].status, "file", "%s",
                   s->notes[first].said);
}

static const char *whose(void *saving_, int number)
{
    saving *s = saving_;
    int rank = 0;
    while (rank < ranks(s) - 1 && writers_below(s, rank + 1) < number)
        rank++;
    snprintf(s->whose, sizeof s->whose, "rank %d on host '%s'", rank,
             s->notes[rank].host);
    return s->whose;
}

static hr_status seal(saving *s)
{
    const train_options *o = s->r->job->opts;
    char done = 1;
    if (me(s) == 0)
        APP_TRY(hr_app_checkpoint_seal(&s->draft, &s->info, o->keep,
                                       writers_below(s, ranks(s)), whose, s));
    return hr_app_share(s->r->groups.control, WHAT, &done, sizeof done);
}

static hr_status write_all(saving *s)
{
    hr_group *g = s->r->groups.control;
    char writes = s->n > 0;
    hr_status st = hr_app_share(g, WHAT, s->draft.temp, (int64_t)sizeof s->draft.temp);
    if (st >= 0)
        st = hr_app_share_each(g, WHAT, &writes, 1, s->writes);
    if (st >= 0)
        return agree(s, write_mine(s));
    give_up(s);
    return st;
}

static hr_status save(saving *s)
{
    const train_options *o = s->r->job->opts;
    APP_TRY(list_mine(s));
    if (me(s) == 0)
        APP_TRY(hr_app_draft_begin(o->out, s->info.step, &s->draft));
    APP_TRY(write_all(s));
    return seal(s);
}

hr_status hr_app_rank_save(train_rank *r, int64_t step)
{
    const train_options *o = r->job->opts;
    saving s = {.r = r,
                .info = {.model = o->model,
                         .step = step,
                         .updates = r->updates,
                         .seed = o->seed,
                         .schedule = r->job->choice.text}};
    hr_status st = hr_app_rank_fence(r, r->comm, r->compute);
    if (st >= 0)
        st = save(&s);
    if (st >= 0)
        st = hr_app_rank_fence(r, r->compute, r->comm);
    free(s.pieces);
    free(s.tensors);
    free(s.names);
    free(s.writes);
    free(s.notes);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */
static hr_status restore(train_rank *r, const state_piece *p)
{
    char name[STATE_NAME];
    size_t bytes = (size_t)p->count * sizeof(float);
    hr_tensor *t = NULL;
    hr_app_state_name(p, name);
    float *host = malloc(bytes + 1);
    hr_status st =
        host ? HR_OK : hr_fail(HR_ERR_NOMEM, NULL, "no memory for '%s'", name);
    if (st >= 0)
        st = hr_app_checkpoint_read(r->job->resumed, name, p->whole->ndim,
                                    p->whole->shape, p->first, p->count, host);
    if (st >= 0)
        st = hr_app_flat_part(p->flat, p->at, p->count, &t);
    if (st >= 0)
        st = hr_tensor_write(t, host, bytes);
    hr_tensor_release(t);
    free(host);
    return st;
}

hr_status hr_app_rank_resume(train_rank *r)
{
    state_piece *pieces;
    int n;
    if (hr_group_rank(r->groups.control) == 0)
        hr_app_drafts_clean(r->job->opts->out);
    APP_TRY(hr_app_state_pieces(r, &pieces, &n));
    hr_status st = HR_OK;
    for (int i = 0; i < n && st >= 0; i++)
        st = restore(r, &pieces[i]);
    free(pieces);
    r->updates = r->job->first_updates;
    return st < 0 ? st : hr_app_params_round(&r->model->params);
}
