/* What hr_stage_dispatch_bwd_grad() relies on, where it takes a dispatcher to see it; the other
 * invariants are in pipeline/test_stage_grad.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"      /* HR_TRY */
#include "moe/moe_route.h" /* the buffers themselves */
#include "unit/moe/moe_drive.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- 1: B is there before any forward and stays ----------------------------------------- */
static hr_status b_stays(moe_rank *r, moe_flow *f)
{
    const hr__buffer *b = r->dispatcher->zc->b;
    const void *bytes = hr_tensor_data(b->rows);

    HOLDS(bytes != NULL && b->state == HR__FREE);
    HR_TRY(drive_serial(r, f));
    HOLDS(r->dispatcher->zc->b == b && hr_tensor_data(b->rows) == bytes);
    HOLDS(b->state == HR__FREE);
    return HR_OK;
}

static void invariant_1_b_is_there_from_the_start_and_is_not_released(void **state)
{
    drive_passes((drive){.c = &drive_two, .body = b_stays});
}

/* ---- 2: the gradient of what was dispatched has the shape of B ----------------------------- */
static hr_status static_shape(moe_rank *r, moe_flow *f)
{
    const hr__buffer *b = r->dispatcher->zc->b;

    HR_TRY(drive_forward(&f[0], SLOT_PRE, SLOT_COMBINE));
    HOLDS(hr_tensor_same_shape(f[0].out[SLOT_DISPATCH][0], b->rows));
    HR_TRY(drive_backward(&f[0], SLOT_COMBINE, SLOT_MLP));
    HOLDS(hr_tensor_same_shape(hr_tensor_grad(f[0].in[SLOT_MLP][0]), b->rows));
    return HR_OK;
}

static void invariant_2_shapes_are_static_whatever_was_received(void **state)
{
    moe_case c = drive_two;

    drive_passes((drive){.c = &drive_two, .body = static_shape});
    c.choose = choose_first_rank; /* nothing for rank 1 */
    drive_passes((drive){.c = &c, .body = static_shape});
}

/* ---- 3: B is free when the gradient is staged ------------------------------------------------ */
static hr_status busy(moe_rank *r, moe_flow *f)
{
    HR_TRY(drive_forward(&f[0], SLOT_PRE, SLOT_COMBINE));
    HR_TRY(drive_backward(&f[0], SLOT_COMBINE, SLOT_MLP));
    r->dispatcher->zc->b->state = HR__LANDED; /* as if nobody had copied it out */
    EXPECT(
        flow_backward(&f[0], SLOT_DISPATCH), HR_ERR_STATE, "buffer_state",
        "staging the dispatch gradient: buffer B is LANDED; it can become STAGED only "
        "from FREE");
    return HR_OK;
}

static void invariant_3_a_gradient_that_landed_is_not_overwritten(void **state)
{
    drive_passes((drive){.c = &drive_two, .body = busy});
}

/* ---- 5: on the communication stream, after its wait, right before dispatch -------------------- */
typedef struct copies {
    const hr_stream *comm;
    const hr_tensor *b;
    const hr_event *done; /* of the chunk */
    int waited, copied, early, elsewhere, other;
} copies;

static void watch(void *ctx, const hr_probe_record *r)
{
    copies *c = ctx;

    if (r->kind == HR_PROBE_WAIT && r->a == c->done && r->b == c->comm)
        c->waited++;
    if (r->kind != HR_PROBE_COPY)
        return;
    c->copied++;
    c->early += c->waited == 0;
    c->elsewhere += hr_stream_current() != c->comm;
    c->other += r->a != c->b;
}

static hr_status on_comm(moe_rank *r, moe_flow *f)
{
    const hr__buffer *b = r->dispatcher->zc->b;
    copies c = {.comm = r->comm, .b = b->rows, .done = f[0].done};

    HR_TRY(drive_forward(&f[0], SLOT_PRE, SLOT_COMBINE));
    HR_TRY(drive_backward(&f[0], SLOT_COMBINE, SLOT_MLP));
    hr_probe_set(watch, &c);
    hr_status st = flow_backward(&f[0], SLOT_DISPATCH);
    hr_probe_set(NULL, NULL);
    HR_TRY(st);
    HOLDS(c.copied == 1 && c.early == 0 && c.elsewhere == 0 && c.other == 0);
    HOLDS(b->state == HR__FREE); /* and dispatch has used it up */
    return HR_OK;
}

static void invariant_5_staging_runs_on_the_communication_stream(void **state)
{
    drive_passes((drive){.c = &drive_two, .two_streams = 1, .body = on_comm});
}

/* ---- 7: the same window at the same offset on all ranks, without tokens too ------------------- */
static hr_status same_windows(moe_rank *r, moe_flow *f)
{
    enum { WINDOWS = 4 };
    hr_stream *s = hr_stream_current();
    const hr__zero_copy *zc = r->dispatcher->zc;
    int64_t mine[WINDOWS], all[WINDOWS * CASE_MAX_RANKS];

    for (int i = 0; i < 3; i++)
        HR_TRY(run_microbatches(r, RUN_INTERLEAVED, NULL));
    HOLDS(zc->n_p == 2);
    mine[0] = hr_window_offset(zc->f->window);
    mine[1] = hr_window_offset(zc->b->window);
    mine[2] = hr_window_offset(zc->p->window);
    mine[3] = hr_window_offset(zc->p->next->window);
    HR_TRY(hr_all_gather(r->tokens, mine, all, WINDOWS, HR_I64, s));
    HR_TRY(hr_stream_synchronize(s));
    for (int i = 0; i < WINDOWS * r->c->ranks; i++)
        HOLDS(all[i] == mine[i % WINDOWS]);
    return HR_OK;
}

static void invariant_7_windows_agree_on_all_ranks_and_with_no_tokens(void **state)
{
    moe_case c = drive_two;

    c.ranks = 4;
    c.tokens[2] = 3; /* and none on rank 3 */
    drive_passes((drive){.c = &c, .body = same_windows});
}

/* ---- 9: only rows that the routing names travel --------------------------------------------- */
static hr_status spoil_slack(const hr_route *route, hr_tensor *grad)
{
    enum { MOST = 256 };
    const int local = route->owner->local;
    int64_t limits[8];
    float v[MOST];
    const size_t n = (size_t)hr_tensor_count(grad);

    HOLDS(local < 8 && n <= MOST);
    HR_TRY(hr_device_synchronize(hr_device_current()));
    HR_TRY(hr_tensor_read(route->limits, limits, (size_t)(local + 1) * sizeof *limits));
    HR_TRY(hr_tensor_read(grad, v, n * sizeof *v));
    const int64_t live = limits[local] * hr_tensor_dim(grad, 1);

    HOLDS(live < (int64_t)n); /* there is slack */
    for (size_t i = (size_t)live; i < n; i++)
        v[i] = NAN;
    return hr_tensor_write(grad, v, n * sizeof *v);
}

static hr_status spoiled(moe_rank *r, moe_flow *f)
{
    for (int b = 0; b < CASE_MICROBATCHES; b++) {
        HR_TRY(drive_forward(&f[b], SLOT_PRE, SLOT_COMBINE));
        HR_TRY(drive_backward(&f[b], SLOT_COMBINE, SLOT_MLP));
        HR_TRY(spoil_slack(f[b].route, hr_tensor_grad(f[b].in[SLOT_MLP][0])));
        HR_TRY(drive_backward(&f[b], SLOT_DISPATCH, SLOT_PRE));
    }
    return HR_OK;
}

static void invariant_9_garbage_in_slack_rows_does_not_travel(void **state)
{
    moe_result *clean = result_create(&drive_two), *dirty = result_create(&drive_two);

    assert_non_null(clean);
    assert_non_null(dirty);
    drive_passes((drive){.c = &drive_two, .body = drive_serial, .result = clean});
    drive_passes((drive){.c = &drive_two, .body = spoiled, .result = dirty});
    assert_true(result_same_bits(clean, dirty));
    result_destroy(clean);
    result_destroy(dirty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariant_1_b_is_there_from_the_start_and_is_not_released),
        cmocka_unit_test(invariant_2_shapes_are_static_whatever_was_received),
        cmocka_unit_test(invariant_3_a_gradient_that_landed_is_not_overwritten),
        cmocka_unit_test(invariant_5_staging_runs_on_the_communication_stream),
        cmocka_unit_test(invariant_7_windows_agree_on_all_ranks_and_with_no_tokens),
        cmocka_unit_test(invariant_9_garbage_in_slack_rows_does_not_travel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
