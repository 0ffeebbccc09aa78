/* The buffers of the symmetric dispatcher: their states, what becomes of what was consumed, who may refer
 * to them, and what happens when the rows do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"      /* HR_TRY */
#include "moe/moe_route.h" /* the buffers themselves */
#include "support/backend.h"
#include "unit/moe/moe_drive.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static hr_status all_nan(hr_tensor *t, bool *out)
{
    enum { MOST = 256 };
    float v[MOST];
    const size_t n = (size_t)hr_tensor_count(t);

    HOLDS(n > 0 && n <= MOST);
    HR_TRY(hr_device_synchronize(hr_device_current()));
    HR_TRY(hr_tensor_read(t, v, n * sizeof *v));
    *out = true;
    for (size_t i = 0; i < n; i++)
        *out = *out && isnan(v[i]);
    return HR_OK;
}

/* ---- states ------------------------------------------------------------------------------- */
static hr_status transitions(moe_rank *r, moe_flow *f)
{
    hr_tensor *out = NULL, *plain = f[0].grad;
    const hr__zero_copy *zc = r->dispatcher->zc;

    HR_TRY(drive_forward(&f[0], SLOT_PRE, SLOT_MLP));
    HOLDS(zc->f->state == HR__STAGED);
    HR_TRY(drive_forward(&f[1], SLOT_PRE, SLOT_DISPATCH));
    EXPECT(flow_forward(&f[1], SLOT_MLP), HR_ERR_STATE, "buffer_state",
           "moe_grouped_last: buffer F is STAGED; it can become STAGED only from FREE");
    EXPECT(hr_moe_combine(f[1].route, f[0].out[SLOT_MLP][0], &out), HR_ERR_STATE,
           "buffer_state", "another layer or microbatch");
    EXPECT(hr_moe_dispatch(f[0].route, f[0].out[0][0], f[0].out[0][1], &out, &plain),
           HR_ERR_STATE, "buffer_state", "has been dispatched");
    EXPECT(hr_moe_combine(f[0].route, f[0].out[SLOT_DISPATCH][0], &out), HR_ERR_INVALID,
           "not_in_f", "hr_moe_grouped_last");
    HR_TRY(flow_forward(&f[0], SLOT_COMBINE)); /* no harm was done */
    HOLDS(zc->f->state == HR__FREE);
    EXPECT(hr_moe_combine(f[0].route, f[0].out[SLOT_MLP][0], &out), HR_ERR_STATE,
           "buffer_state", "buffer F is FREE; it can become INFLIGHT only from STAGED");
    return HR_OK;
}

static void illegal_transitions_name_buffer_state_and_wish(void **state)
{
    drive_passes((drive){.c = &drive_two, .body = transitions});
}

/* B while a staged gradient waits in it. */
static hr_status busy_b(moe_rank *r, moe_flow *f)
{
    hr__buffer *b = r->dispatcher->zc->b;

    HR_TRY(drive_forward(&f[0], SLOT_PRE, SLOT_COMBINE));
    b->state = HR__STAGED; /* as if a dispatch backward were still to come */
    EXPECT(flow_backward(&f[0], SLOT_COMBINE), HR_ERR_STATE, "buffer_state",
           "moe_combine backward: buffer B is STAGED; it can become LANDING only from "
           "FREE");
    return HR_OK;
}

static void a_gradient_does_not_land_on_one_that_is_staged(void **state)
{
    drive_passes((drive){.c = &drive_two, .body = busy_b});
}

/* ---- what was consumed ----------------------------------------------------------------------- */
static hr_status consumed(moe_rank *r, moe_flow *f)
{
    const hr__zero_copy *zc = r->dispatcher->zc;
    bool nan;

    HR_TRY(drive_forward(&f[0], SLOT_PRE, SLOT_COMBINE));
    HR_TRY(all_nan(f[0].out[SLOT_MLP][0], &nan));
    HOLDS(nan);
    HR_TRY(drive_backward(&f[0], SLOT_COMBINE, SLOT_COMBINE));
    HR_TRY(all_nan(zc->b->rows, &nan));
    HOLDS(nan);
    HR_TRY(drive_backward(&f[0], SLOT_MLP, SLOT_DISPATCH));
    HR_TRY(all_nan(zc->b->rows, &nan));
    HOLDS(nan);
    return HR_OK;
}

static void what_was_sent_is_poisoned(void **state)
{
    drive_passes((drive){.c = &drive_two, .two_streams = 1, .body = consumed});
}

/* ---- who refers to F and B ----------------------------------------------------------------- */
static bool is_idle(const hr__buffer *b)
{
    return hr_storage_claims(hr_window_storage(b->window)) == b->idle_claims;
}

static hr_status landed_gradient(moe_rank *r, moe_flow *f)
{
    const hr__zero_copy *zc = r->dispatcher->zc;

    HR_TRY(drive_forward(&f[0], SLOT_PRE, SLOT_COMBINE));
    HR_TRY(drive_backward(&f[0], SLOT_COMBINE, SLOT_COMBINE));
    hr_tensor *grad = hr_tensor_grad(f[0].in[SLOT_COMBINE][0]);

    HOLDS(grad && !hr_tensor_is_symmetric(grad));
    HOLDS(hr_storage_home(hr_tensor_storage(grad)) == r->comm); /* copied there */
    HOLDS(zc->b->state == HR__FREE && is_idle(zc->b));
    return HR_OK;
}

static void a_gradient_that_landed_in_b_is_copied_at_the_node_boundary(void **state)
{
    drive_passes((drive){.c = &drive_two, .two_streams = 1, .body = landed_gradient});
}

/* B holds zeros where no row landed, and fresh memory is filled with ones. */
static hr_status landed_rows(moe_rank *r, moe_flow *f)
{
    enum { MOST = 256 };
    uint16_t v[MOST];
    int64_t limits[8];
    hr_tensor *b = r->dispatcher->zc->b->rows;
    const int64_t n = hr_tensor_count(b), local = r->dispatcher->local;

    HOLDS(n <= MOST && local < 8 && hr_tensor_bytes(b) == (size_t)n * sizeof *v);
    HR_TRY(drive_forward(&f[0], SLOT_PRE, SLOT_COMBINE));
    HR_TRY(hr_fill(r->comm, hr_tensor_data(b), 0, hr_tensor_bytes(b)));
    HR_TRY(drive_backward(&f[0], SLOT_COMBINE, SLOT_COMBINE));
    HR_TRY(hr_device_synchronize(hr_device_current()));
    HR_TRY(hr_tensor_read(f[0].route->limits, limits,
                          hr_tensor_bytes(f[0].route->limits)));
    HR_TRY(hr_tensor_read(hr_tensor_grad(f[0].in[SLOT_COMBINE][0]), v,
                          (size_t)n * sizeof *v));
    HOLDS(limits[local] > 0 && limits[local] * r->c->width < n);
    for (int64_t i = 0; i < n; i++)
        HOLDS((v[i] == 0xffff) == (i >= limits[local] * r->c->width));
    return HR_OK;
}

static void of_rows_of_bf16_those_that_landed_are_copied(void **state)
{
    moe_case c = drive_two;

    c.type = HR_BF16;
    drive_passes((drive){.c = &c, .two_streams = 1, .poison = 1, .body = landed_rows});
}

/* Give up the handles that nodes would: outputs, and what the next slot took. */
static void drop_handles(moe_flow *f)
{
    for (int i = 0; i < SLOTS * 2; i++) {
        hr_tensor_release(f->out[i / 2][i % 2]);
        f->out[i / 2][i % 2] = NULL;
        if (i / 2 != SLOT_PRE) {
            hr_tensor_release(f->in[i / 2][i % 2]);
            f->in[i / 2][i % 2] = NULL;
        }
    }
}

static hr_status postponed(moe_rank *r, moe_flow *f)
{
    const hr__zero_copy *zc = r->dispatcher->zc;
    hr_wgrad_queue *q;

    HR_TRY(hr_wgrad_queue_create(&q));
    f[0].queue = f[1].queue = q;
    hr_status st = drive_forward(&f[0], SLOT_PRE, SLOT_COMBINE);
    if (st >= 0)
        st = drive_backward(&f[0], SLOT_COMBINE, SLOT_PRE);
    bool kept = hr_wgrad_pending(q) == 2 && !is_idle(zc->p) && zc->n_p == 1;
    if (st >= 0)
        st = drive_forward(&f[1], SLOT_PRE, SLOT_COMBINE);
    kept = kept && zc->n_p == 2; /* the first P still holds what the queue needs */
    if (st >= 0)
        st = drive_backward(&f[1], SLOT_COMBINE,
                            SLOT_COMBINE); /* B is another's by now */
    if (st >= 0)
        st = hr_wgrad_run(q);
    if (st >= 0)
        st = drive_backward(&f[1], SLOT_MLP, SLOT_PRE);
    if (st >= 0)
        st = hr_wgrad_run(q);
    hr_wgrad_queue_destroy(q);
    HR_TRY(st);
    HOLDS(kept);
    return HR_OK;
}

static void weight_gradients_may_wait_past_the_next_combine_backward(void **state)
{
    moe_run plain = {
        .c = &drive_two, .order = RUN_SERIAL, .result = result_create(&drive_two)};
    moe_result *late = result_create(&drive_two);

    assert_non_null(plain.result);
    assert_non_null(late);
    assert_int_equal(run_case(&plain), HR_OK);
    drive_passes(
        (drive){.c = &drive_two, .two_streams = 1, .body = postponed, .result = late});
    assert_true(result_same_bits(plain.result, late));
    result_destroy(plain.result);
    result_destroy(late);
}

static hr_status nothing_saved(moe_rank *r, moe_flow *f)
{
    const hr__zero_copy *zc = r->dispatcher->zc;
    hr_wgrad_queue *q;

    HR_TRY(hr_wgrad_queue_create(&q));
    f[0].queue = q;
    hr_status st = drive_forward(&f[0], SLOT_PRE, SLOT_COMBINE);
    /* Between the mlp and its combine there are two handles on F, out of the one and into the
     * other; the graphs of both have none. */
    bool f_free =
        hr_storage_claims(hr_window_storage(zc->f->window)) == zc->f->idle_claims + 2;
    if (st >= 0)
        st = drive_backward(&f[0], SLOT_COMBINE, SLOT_MLP);
    drop_handles(&f[0]);
    bool stored = hr_wgrad_pending(q) == 2;
    bool free_of_both = is_idle(zc->f) && is_idle(zc->b);
    hr_wgrad_queue_destroy(q);
    HR_TRY(st);
    HOLDS(f_free && stored && free_of_both);
    HOLDS(is_idle(zc->p)); /* with the queue its last user is gone */
    return HR_OK;
}

static void no_saved_tensor_and_no_stored_work_refers_to_f_or_b(void **state)
{
    drive_passes((drive){.c = &drive_two, .two_streams = 1, .body = nothing_saved});
}

/* ---- P ---------------------------------------------------------------------------------------- */
static hr_status fewest_p(moe_rank *r, moe_flow *f)
{
    for (int i = 0; i < 5; i++)
        HR_TRY(run_microbatches(r, RUN_INTERLEAVED, NULL));
    HOLDS(r->dispatcher->zc->n_p == 2);
    return HR_OK;
}

static void there_are_as_many_p_as_were_in_use_at_once(void **state)
{
    drive_passes((drive){.c = &drive_two, .two_streams = 1, .body = fewest_p});
}

/* ---- slack -------------------------------------------------------------------------------------- */
static void garbage_in_slack_rows_changes_nothing(void **state)
{
    moe_result *r[2];

    for (int i = 0; i < 2; i++) { /* NaN, or what happens to lie there */
        r[i] = result_create(&drive_two);
        assert_non_null(r[i]);
        drive_passes((drive){.c = &drive_two,
                             .body = drive_serial,
                             .poison = i == 0 ? 1 : -1,
                             .result = r[i]});
    }
    assert_true(result_same_bits(r[0], r[1]));
    result_destroy(r[0]);
    result_destroy(r[1]);
}

/* ---- overflow ------------------------------------------------------------------------------------ */
typedef struct overfull {
    moe_case c;
    hr_status st[2], again[2];
    hr_overflow seen[2];
    char text[2][320];
} overfull;

static hr_status overfull_rank(hr_group *world, void *arg)
{
    overfull *o = arg;
    int me = hr_group_rank(world);
    moe_rank r;
    hr_status st = rank_begin(&o->c, world, 1, &r);

    if (st >= 0)
        st = run_microbatches(&r, RUN_INTERLEAVED, NULL);
    if (st >= 0) {
        o->st[me] = hr_dispatcher_check(r.dispatcher, &o->seen[me]);
        if (o->st[me] < 0)
            snprintf(o->text[me], sizeof o->text[me], "%s", hr_last_error());
        o->again[me] = hr_dispatcher_check(r.dispatcher, NULL);
    }
    rank_end(&r);
    return st;
}

static void run_overfull(overfull *o)
{
    const hr_local_opts opts = {HR_INIT(hr_local_opts), .backend = test_backend(),
                                .timeout_s = 60.0};

    assert_int_equal(hr_local_run(2, &opts, overfull_rank, o), HR_OK);
    assert_int_equal(o->again[0], HR_OK);
    assert_int_equal(o->again[1], HR_OK);
}

/* All 22 rows go to rank 0, with room for 12. */
static void overflow_names_layer_rank_counts_and_the_capacity_needed(void **state)
{
    overfull o = {.c = drive_two};

    o.c.choose = choose_first_rank;
    o.c.capacity_factor = 1;
    run_overfull(&o);
    for (int me = 0; me < 2; me++) {
        assert_int_equal(o.st[me], HR_ERR_STATE);
        assert_int_equal(o.seen[me].rank, 0);
        assert_int_equal(o.seen[me].needed, 22);
        assert_string_equal(
            o.text[me], "layer 0, microbatch 0: rank 0 gets 22 rows for its experts "
                        "(from expert 0 on: 11, 11), more than its capacity of 12; "
                        "capacity 22 is needed, a capacity factor of 1.8334");
    }
    o.c.capacity_factor = o.seen[0].factor;
    run_overfull(&o);
    assert_int_equal(o.st[0], HR_OK);
    assert_int_equal(o.st[1], HR_OK);
    assert_int_equal(o.seen[0].needed, 0);
}

static void the_all_to_all_kind_never_overflows(void **state)
{
    overfull o = {.c = drive_two};

    o.c.kind = HR_MOE_ALLTOALL;
    o.c.choose = choose_first_rank;
    run_overfull(&o);
    assert_int_equal(o.st[0], HR_OK);
}

/* ---- after a failure -------------------------------------------------------------------------------- */
static hr_status stumble(moe_rank *r, moe_flow *f)
{
    moe_flow lost[2] = {{0}};
    hr_status st = flow_begin(r, 0, &lost[0]);

    if (st >= 0)
        st = flow_begin(r, 1, &lost[1]);
    if (st >= 0)
        st = drive_forward(&lost[0], SLOT_PRE, SLOT_MLP); /* F is staged, */
    if (st >= 0)
        st = flow_forward(&lost[1], SLOT_PRE); /* a P reserved */
    flow_end(&lost[0]);
    flow_end(&lost[1]);
    HR_TRY(st);
    HR_TRY(hr_device_synchronize(hr_group_device(r->world)));
    hr_dispatcher_reset(r->dispatcher);
    HOLDS(r->dispatcher->zc->f->state == HR__FREE);
    return drive_serial(r, f);
}

static void after_a_reset_the_next_step_is_exact(void **state)
{
    moe_run plain = {
        .c = &drive_two, .order = RUN_SERIAL, .result = result_create(&drive_two)};
    moe_result *after = result_create(&drive_two);

    assert_non_null(plain.result);
    assert_non_null(after);
    assert_int_equal(run_case(&plain), HR_OK);
    drive_passes((drive){.c = &drive_two, .body = stumble, .result = after});
    assert_true(result_same_bits(plain.result, after));
    result_destroy(plain.result);
    result_destroy(after);
}

/* ---- refusals --------------------------------------------------------------------------------------- */
static hr_status refuse(moe_rank *r, moe_flow *f)
{
    hr_dispatcher *d;
    hr_dispatcher_opts o = {HR_INIT(hr_dispatcher_opts),
                            .experts = 4,
                            .top_k = 2,
                            .tokens = r->tokens,
                            .counts = r->counts,
                            .counts_stream = r->counts_stream,
                            .kind = HR_MOE_SYMMETRIC,
                            .max_tokens = 6};
    EXPECT(hr_dispatcher_create(&o, &d), HR_ERR_INVALID, "capacity", "width 0");
    o.width = 4;
    o.capacity_factor = -1;
    EXPECT(hr_dispatcher_create(&o, &d), HR_ERR_INVALID, "capacity", "factor -1");
    o.capacity_factor = NAN;
    EXPECT(hr_dispatcher_create(&o, &d), HR_ERR_INVALID, "capacity", "nan");
    o.capacity_factor = 1e12;
    EXPECT(hr_dispatcher_create(&o, &d), HR_ERR_INVALID, "capacity", "31 bits");
    HOLDS(d == NULL);
    HOLDS(hr_dispatcher_capacity(r->dispatcher) == 24);
    HOLDS(hr_moe_offsets(f[0].route) == NULL);
    return HR_OK;
}

static hr_status too_many_tokens(moe_rank *r, moe_flow *f)
{
    hr_tensor *x = NULL, *probs = NULL, *index = NULL, *a, *b;
    hr_route *route;
    hr_status st = hr_tensor_zeros(HR_F32, 2, (int64_t[]){7, 4}, &x);

    if (st >= 0)
        st = hr_tensor_zeros(HR_F32, 2, (int64_t[]){7, 2}, &probs);
    if (st >= 0)
        st = hr_tensor_zeros(HR_I32, 2, (int64_t[]){7, 2}, &index);
    if (st >= 0)
        st = expect(hr_moe_preprocess(r->dispatcher, x, probs, index, &route, &a, &b),
                    HR_ERR_INVALID, "shape", "at most 6 tokens of width 4", __LINE__);
    hr_tensor_release(x);
    hr_tensor_release(probs);
    hr_tensor_release(index);
    return st;
}

static void what_there_is_no_room_for_is_refused(void **state)
{
    drive_passes((drive){.c = &drive_two, .body = refuse});
    drive_passes((drive){.c = &drive_two, .body = too_many_tokens});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(illegal_transitions_name_buffer_state_and_wish),
        cmocka_unit_test(a_gradient_does_not_land_on_one_that_is_staged),
        cmocka_unit_test(what_was_sent_is_poisoned),
        cmocka_unit_test(a_gradient_that_landed_in_b_is_copied_at_the_node_boundary),
        cmocka_unit_test(of_rows_of_bf16_those_that_landed_are_copied),
        cmocka_unit_test(weight_gradients_may_wait_past_the_next_combine_backward),
        cmocka_unit_test(no_saved_tensor_and_no_stored_work_refers_to_f_or_b),
        cmocka_unit_test(there_are_as_many_p_as_were_in_use_at_once),
        cmocka_unit_test(garbage_in_slack_rows_changes_nothing),
        cmocka_unit_test(overflow_names_layer_rank_counts_and_the_capacity_needed),
        cmocka_unit_test(the_all_to_all_kind_never_overflows),
        cmocka_unit_test(after_a_reset_the_next_step_is_exact),
        cmocka_unit_test(what_there_is_no_room_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
