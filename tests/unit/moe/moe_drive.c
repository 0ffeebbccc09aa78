#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h" /* HR_TRY */
#include "support/backend.h"
#include "unit/moe/moe_drive.h"
#include <string.h>

const moe_case drive_two = {.ranks = 2,
                            .experts = 4,
                            .top_k = 2,
                            .width = 4,
                            .hidden = 3,
                            .tokens = {6, 5},
                            .choose = choose_spread,
                            .kind = HR_MOE_SYMMETRIC};

static hr_status drive_flows(const drive *d, moe_rank *r)
{
    moe_flow f[CASE_MICROBATCHES] = {{0}};
    hr_status st = HR_OK;

    for (int b = 0; st >= 0 && b < CASE_MICROBATCHES; b++)
        st = flow_begin(r, b, &f[b]);
    if (st >= 0)
        st = d->body(r, f);
    for (int b = 0; st >= 0 && d->result && b < CASE_MICROBATCHES; b++)
        st = flow_read(&f[b], d->result);
    for (int b = 0; b < CASE_MICROBATCHES; b++)
        flow_end(&f[b]);
    return st;
}

static hr_status drive_rank(hr_group *world, void *arg)
{
    const drive *d = arg;
    moe_rank r;
    hr_status st = rank_begin(d->c, world, d->two_streams, &r);

    if (st >= 0)
        st = drive_flows(d, &r);
    if (st >= 0)
        st = hr_device_synchronize(hr_group_device(world));
    if (st >= 0 && d->result)
        st = rank_read(&r, d->result);
    rank_end(&r);
    return st;
}

void drive_passes(drive d)
{
    const hr_local_opts o = {HR_INIT(hr_local_opts), .backend = test_backend(),
                             .timeout_s = 60.0,
                             .device = {HR_INIT(hr_device_opts), .poison = d.poison}};
    hr_status st = hr_local_run(d.c->ranks, &o, drive_rank, &d);

    if (st < 0)
        print_error("%s\n", hr_last_error());
    assert_int_equal(st, HR_OK);
}

hr_status drive_forward(moe_flow *f, int from, int to)
{
    for (int slot = from; slot <= to; slot++)
        HR_TRY(flow_forward(f, slot));
    return HR_OK;
}

hr_status drive_backward(moe_flow *f, int from, int to)
{
    for (int slot = from; slot >= to; slot--)
        HR_TRY(flow_backward(f, slot));
    return HR_OK;
}

hr_status drive_serial(moe_rank *r, moe_flow *f)
{
    for (int b = 0; b < CASE_MICROBATCHES; b++) {
        HR_TRY(drive_forward(&f[b], SLOT_PRE, SLOT_COMBINE));
        HR_TRY(drive_backward(&f[b], SLOT_COMBINE, SLOT_PRE));
    }
    return HR_OK;
}

hr_status expect(hr_status got, hr_status wanted, const char *reason, const char *word,
                 int line)
{
    if (got == wanted && strcmp(hr_last_reason(), reason) == 0 &&
        strstr(hr_last_error(), word))
        return HR_OK;
    return hr_fail(HR_ERR_CALLBACK, "check", "line %d: expected '%s', got %s", line,
                   word, got < 0 ? hr_last_error() : "success");
}
