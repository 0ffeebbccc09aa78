/* Windows at the same offset everywhere, and rows whose counts only device memory knows: there, back, past
 * the end, and with counts of every shape (users' trouble 4: all-to-all with empty or disagreeing
 * parts). */
#include "conform/group/engines.h"
#include <string.h>

enum {
    RANKS = 8,
    PARTS = 2,
    ALL = RANKS * PARTS,
    MOST = 16,
    ROOM = RANKS * ALL * MOST
};

/* ---- windows ----------------------------------------------------------------------------- */
static hr_status two_windows(hr_group *g, void *arg)
{
    hr_stream *s = hr_stream_current();
    hr_window *a, *b;
    int64_t mine[2], all[2 * RANKS];
    TRY(hr_window_create(g, 100, s, &a));
    TRY(hr_window_create(g, 5000, s, &b));
    mine[0] = hr_window_offset(a);
    mine[1] = hr_window_offset(b);
    TRY(hr_all_gather(g, mine, all, 2, HR_I64, s));
    TRY(hr_stream_synchronize(s));
    for (int r = 0; r < hr_group_size(g); r++)
        CHECK(all[2 * r] == mine[0] && all[2 * r + 1] == mine[1]);
    CHECK(mine[1] >= mine[0] + 100); /* they do not overlap in the space */
    CHECK(hr_window_peer(a, hr_group_rank(g)) == hr_storage_data(hr_window_storage(a)));
    CHECK(hr_window_peer(a, hr_group_size(g)) == NULL && hr_window_peer(a, -1) == NULL);
    hr_window_destroy(a);
    hr_window_destroy(b);
    hr_window_destroy(NULL);
    return HR_OK;
}

static void windows_have_the_same_offset_on_all_members(void **state)
{
    succeeds_everywhere(two_windows, NULL);
}

static hr_status ask_symmetric(hr_group *g, void *arg)
{
    hr_stream *s = hr_stream_current();
    hr_window *w;
    hr_tensor *over, *view, *plain;
    TRY(hr_window_create(g, 64, s, &w));
    TRY(hr_tensor_over(hr_window_storage(w), 16, HR_F32, 1, (int64_t[]){8}, &over));
    TRY(hr_tensor_view(over, 2, (int64_t[]){2, 4}, &view));
    TRY(hr_tensor_zeros(HR_F32, 1, (int64_t[]){8}, &plain));
    CHECK(hr_tensor_is_symmetric(over) && hr_tensor_is_symmetric(view));
    CHECK(!hr_tensor_is_symmetric(plain));
    hr_window_destroy(w); /* the bytes go with the last claim */
    CHECK(hr_tensor_data(view) != NULL);
    hr_tensor_release(over);
    hr_tensor_release(view);
    hr_tensor_release(plain);
    return HR_OK;
}

static void tensors_over_a_window_are_symmetric_and_keep_its_bytes(void **state)
{
    succeeds_everywhere(ask_symmetric, NULL);
}

static hr_status uneven_windows(hr_group *g, void *arg)
{
    hr_window *w;
    return hr_window_create(g, hr_group_rank(g) == 2 ? 64 : 128, hr_stream_current(),
                            &w);
}

static void members_that_ask_for_different_sizes_are_named(void **state)
{
    fails(4, NULL, uneven_windows, NULL, HR_ERR_MISMATCH,
          WORDS("rank 0 asks for 128 bytes but rank 2 for 64", "ranks 0,1,2,3"));
}

static hr_status stay_away(hr_group *g, void *arg)
{
    hr_window *w;
    return hr_group_rank(g) == 1 ? HR_OK
                                 : hr_window_create(g, 64, hr_stream_current(), &w);
}

static void a_member_that_does_not_make_the_window_ends_the_wait(void **state)
{
    fails(2, NULL, stay_away, NULL, HR_ERR_ABORTED, WORDS("window", "rank 1"));
}

/* ---- rows ---------------------------------------------------------------------------------- */
/* Rows of member `from` for `part` of all. */
typedef int32_t (*matrix)(int n, int from, int part);

static int32_t all_zero(int n, int from, int part)
{
    return 0;
}

static int32_t zero_row(int n, int from, int part)
{
    return from == n / 2 ? 0 : 3;
}

static int32_t zero_column(int n, int from, int part)
{
    return part / PARTS == n / 2 ? 0 : 3;
}

static int32_t single_pair(int n, int from, int part)
{
    return from == 0 && part == n * PARTS - 1 ? 5 : 0;
}

static int32_t own_parts(int n, int from, int part)
{
    return part / PARTS == from ? 4 : 0;
}

static int32_t random_counts(int n, int from, int part)
{
    uint32_t x = number((uint32_t)(n * 100 + from), (uint32_t)part);
    return x % 3 ? (int32_t)(x % MOST) : 0;
}

typedef struct row {
    int32_t from, part, i;
} row;

typedef struct exchange {
    int n, me;
    matrix count;
    int32_t counts[RANKS * ALL];
    row sent[ALL * MOST], back[ALL * MOST];
    int64_t n_sent;
    hr_window *w;
    hr_rows rows;
} exchange;

static hr_status begin(hr_group *g, matrix count, int64_t window_rows, exchange *x)
{
    x->n = hr_group_size(g);
    x->me = hr_group_rank(g);
    x->n_sent = 0;
    for (int p = 0; p < x->n; p++)
        for (int part = 0; part < x->n * PARTS; part++)
            x->counts[p * x->n * PARTS + part] = count(x->n, p, part);
    for (int part = 0; part < x->n * PARTS; part++)
        for (int32_t i = 0; i < count(x->n, x->me, part); i++)
            x->sent[x->n_sent++] = (row){x->me, part, i};
    hr_stream *s = hr_stream_current();
    TRY(hr_window_create(g, (size_t)(window_rows + 1) * sizeof(row), s, &x->w));
    TRY(hr_fill(s, hr_storage_data(hr_window_storage(x->w)), 0xff,
                (size_t)(window_rows + 1) * sizeof(row)));
    x->rows = (hr_rows){
        HR_INIT(hr_rows),         .counts = x->counts, .parts = PARTS,
        .row_bytes = sizeof(row), .plain = x->sent,    .plain_rows = x->n_sent,
        .window = x->w,           .at = sizeof(row),   .window_rows = window_rows};
    return HR_OK;
}

/* What the window has to hold: by part, then by member; from its second row on. */
static hr_status check_window(const exchange *x, int64_t window_rows)
{
    const row *got = hr_storage_data(hr_window_storage(x->w));
    int64_t at = 0;
    CHECK(got[0].from == -1); /* before `at` */
    for (int l = 0; l < PARTS; l++)
        for (int from = 0; from < x->n; from++)
            for (int32_t i = 0; i < x->counts[(from * x->n + x->me) * PARTS + l]; i++) {
                const row *r = &got[1 + at++];
                if (at <= window_rows)
                    CHECK(r->from == from && r->part == x->me * PARTS + l && r->i == i);
            }
    return HR_OK;
}

static hr_status there_and_back(hr_group *g, void *arg)
{
    exchange *x = arg;
    hr_stream *s = hr_stream_current();
    TRY(hr_rows_store(g, &x->rows, s));
    x->rows.plain = x->back;
    TRY(hr_rows_load(g, &x->rows, s));
    return hr_stream_synchronize(s);
}

static hr_status round_trip(hr_group *g, void *arg)
{
    exchange x;
    TRY(begin(g, *(matrix *)arg, ROOM, &x));
    TRY(there_and_back(g, &x));
    TRY(check_window(&x, ROOM));
    CHECK(memcmp(x.back, x.sent, (size_t)x.n_sent * sizeof(row)) == 0);
    hr_window_destroy(x.w);
    return HR_OK;
}

static void pain_4_rows_with_empty_parts_come_there_and_back(void **state)
{
    static const matrix all[] = {all_zero,    zero_row,  zero_column,
                                 single_pair, own_parts, random_counts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        matrix count = all[i];
        succeeds_everywhere(round_trip, &count);
    }
}

static int32_t many(int n, int from, int part)
{
    return 4;
}

/* Room for less than two members' rows of the first part, so that one part is cut and one is lost. */
static hr_status overfull(hr_group *g, void *arg)
{
    enum { FITS = 6 };
    exchange x;
    TRY(begin(g, many, FITS, &x));
    TRY(there_and_back(g, &x));
    TRY(check_window(&x, FITS));
    for (int64_t i = 0; i < x.n_sent; i++) {
        /* Where it would be in the window of the member that it goes to. */
        int64_t at = x.sent[i].part % PARTS * 4 * x.n + x.me * 4 + x.sent[i].i;
        row none = {0, 0, 0};
        CHECK(memcmp(&x.back[i], at < FITS ? &x.sent[i] : &none, sizeof none) == 0);
    }
    hr_window_destroy(x.w);
    return HR_OK;
}

static void rows_past_the_end_of_a_window_are_left_out(void **state)
{
    succeeds_everywhere(overfull, NULL);
}

/* ---- disagreement --------------------------------------------------------------------------- */
typedef struct dissent {
    int what;
    hr_status st;
    const char *word;
} dissent;
enum { COUNTS, KIND, OFFSET, NEGATIVE, TOO_FEW };

static hr_status disagree(hr_group *g, void *arg)
{
    const dissent *d = arg;
    exchange x;
    hr_stream *s = hr_stream_current();
    TRY(begin(g, many, ROOM, &x));
    if (d->what == NEGATIVE)
        x.counts[1] = -4;
    if (x.me == 1 && d->what == COUNTS)
        x.counts[2 * x.n * PARTS + 3] = 9; /* of rank 2, for part 1 of rank 1 */
    if (x.me == 1 && d->what == OFFSET)
        x.rows.at = 0;
    if (x.me == 1 && d->what == TOO_FEW)
        x.rows.plain_rows = 5;
    TRY(x.me == 1 && d->what == KIND ? hr_rows_load(g, &x.rows, s)
                                     : hr_rows_store(g, &x.rows, s));
    hr_status st = hr_stream_synchronize(s);
    EXPECT(hr_group_status(g), d->st, d->word);
    hr_window_destroy(x.w);
    return st;
}

static void pain_4_disagreeing_rows_are_named_on_all_ranks(void **state)
{
    static const dissent all[] = {
        {COUNTS, HR_ERR_MISMATCH,
         "of rank 2 for part 1 of rank 1, rank 0 counts 4 rows but rank 1 9"},
        {KIND, HR_ERR_MISMATCH, "but rank 1 calls rows_load"},
        {OFFSET, HR_ERR_MISMATCH, "rank 1 calls rows_store"},
        {NEGATIVE, HR_ERR_INVALID, "of rank 0 for part 1 of rank 0: -4 rows"},
        {TOO_FEW, HR_ERR_INVALID, "rank 1 has room for 5 rows, but the counts say 24"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        dissent d = all[i];
        fails(3, NULL, disagree, &d, d.st, WORDS(d.word));
    }
}

static hr_status stray(hr_group *g, void *arg)
{
    exchange x;
    TRY(begin(g, many, ROOM, &x));
    TRY(x.me == 1 ? hr_barrier(g, hr_stream_current())
                  : hr_rows_store(g, &x.rows, hr_stream_current()));
    hr_status st = hr_stream_synchronize(hr_stream_current());
    hr_window_destroy(x.w);
    return st;
}

static void another_operation_in_its_place_is_a_mismatch(void **state)
{
    fails(2, NULL, stray, NULL, HR_ERR_MISMATCH,
          WORDS("calls rows_store (", "calls barrier"));
}

/* ---- peers that do not come, and the link ------------------------------------------------------ */
/* Rank 1 returns, or calls something on another group that nobody else calls. */
static hr_status stay_out(hr_group *g, void *arg)
{
    exchange x;
    hr_group *other;
    hr_stream *s = hr_stream_current();
    TRY(hr_group_create(g, NULL, 0, &other));
    TRY(begin(g, many, ROOM, &x));
    if (x.me != 1)
        TRY(hr_rows_store(g, &x.rows, s));
    else if (*(int *)arg)
        TRY(hr_barrier(other, s));
    hr_status st = hr_stream_synchronize(s);
    hr_window_destroy(x.w);
    hr_group_release(other);
    return st;
}

static void a_member_that_stays_out_of_rows_ends_the_wait(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 0.3};
    int strays = 0;
    fails(3, NULL, stay_out, &strays, HR_ERR_ABORTED, WORDS("rows_store", "rank 1"));
    strays = 1;
    fails(3, &o, stay_out, &strays, HR_ERR_TIMEOUT, WORDS("waited 0.3 s", "missing: "));
}

/* 96 bytes leave each rank for the other, at twenty thousand bits a second. */
static hr_status over_link(hr_group *g, void *arg)
{
    exchange x;
    hr_stream *s = hr_stream_current();
    TRY(begin(g, many, ROOM, &x));
    TRY(hr_stream_synchronize(s));
    int64_t begun = hr_now_ns();
    TRY(hr_rows_store(g, &x.rows, s));
    TRY(hr_stream_synchronize(s));
    CHECK(hr_now_ns() - begun >= 96 * (int64_t)400000);
    hr_window_destroy(x.w);
    return HR_OK;
}

static void the_imitated_link_carries_the_rows_that_there_are(void **state)
{
    skip_across_processes();
    hr_local_opts o = {HR_INIT(hr_local_opts), .link_gbps = 2e-5};
    for (int e = 0; e < n_engines; e++)
        assert_int_equal(run_on(&engines[e], 2, &o, over_link, NULL), HR_OK);
}

static hr_status refuse(hr_group *g, void *arg)
{
    exchange x;
    hr_group *other;
    hr_stream *s = hr_stream_current();
    hr_window *w;
    EXPECT(hr_window_create(g, 0, s, &w), HR_ERR_INVALID, "0 bytes");
    CHECK(w == NULL);
    TRY(hr_group_create(g, NULL, 0, &other));
    TRY(begin(g, many, ROOM, &x));
    EXPECT(hr_rows_store(other, &x.rows, s), HR_ERR_INVALID, "another group");
    EXPECT(hr_rows_store(g, NULL, s), HR_ERR_INVALID, "no rows");
    hr_rows r = x.rows;
    r.window_rows = ROOM + 1;
    EXPECT(hr_rows_store(g, &r, s), HR_ERR_INVALID, "of a window of");
    r = x.rows;
    r.parts = 0;
    EXPECT(hr_rows_load(g, &r, s), HR_ERR_INVALID, "0 parts");
    r = x.rows;
    r.plain = NULL;
    EXPECT(hr_rows_load(g, &r, s), HR_ERR_INVALID, "NULL");
    r = x.rows;
    r.size = 3;
    EXPECT(hr_rows_load(g, &r, s), HR_ERR_INVALID, "HR_INIT");
    hr_group_release(other);
    hr_window_destroy(x.w);
    return HR_OK;
}

static void bad_arguments_are_refused_at_once(void **state)
{
    succeeds_everywhere(refuse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_have_the_same_offset_on_all_members),
        cmocka_unit_test(tensors_over_a_window_are_symmetric_and_keep_its_bytes),
        cmocka_unit_test(members_that_ask_for_different_sizes_are_named),
        cmocka_unit_test(a_member_that_does_not_make_the_window_ends_the_wait),
        cmocka_unit_test(pain_4_rows_with_empty_parts_come_there_and_back),
        cmocka_unit_test(rows_past_the_end_of_a_window_are_left_out),
        cmocka_unit_test(pain_4_disagreeing_rows_are_named_on_all_ranks),
        cmocka_unit_test(another_operation_in_its_place_is_a_mismatch),
        cmocka_unit_test(a_member_that_stays_out_of_rows_ends_the_wait),
        cmocka_unit_test(the_imitated_link_carries_the_rows_that_there_are),
        cmocka_unit_test(bad_arguments_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
