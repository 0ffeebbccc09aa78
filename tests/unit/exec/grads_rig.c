/* grads_rig.c: see grads_rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"
#include "unit/exec/grads_rig.h"
#include <string.h>

hr_status grads_rig_open(grads_rig *r, hr_group *world)
{
    int64_t n = GRADS_ROOM;
    *r = (grads_rig){.world = world};
    HR_TRY(hr_stream_create(hr_group_device(world), NULL, &r->stream));
    HR_TRY(hr_tensor_zeros(HR_F32, 1, &n, &r->grad));
    HR_TRY(hr_tensor_zeros(HR_F32, 1, &n, &r->weight));
    return hr_tensor_zeros(HR_I64, 1, &n, &r->squares);
}

hr_status grads_rig_close(grads_rig *r)
{
    hr_status st = hr_device_synchronize(hr_group_device(r->world));
    hr_grads_destroy(r->g);
    hr_tensor_release(r->grad);
    hr_tensor_release(r->weight);
    hr_tensor_release(r->squares);
    hr_stream_destroy(r->stream);
    return st;
}

hr_status grads_rig_put(hr_tensor *t, const float *values, int n)
{
    float all[GRADS_ROOM] = {0};
    memcpy(all, values, (size_t)n * sizeof *values);
    return hr_tensor_write(t, all, sizeof all);
}

hr_status grads_rig_make_as(grads_rig *r, hr_grads_opts o)
{
    o.world = r->world;
    o.stream = r->stream;
    return hr_grads_create(&o, &r->g);
}

hr_status grads_rig_make(grads_rig *r, const hr_grad_desc *d, int n, int ids)
{
    return grads_rig_make_as(
        r, (hr_grads_opts){HR_INIT(hr_grads_opts), .grads = d, .n = n, .ids = ids});
}

hr_status grads_rig_group(hr_group *world, const int *ranks, int n, hr_group **mine)
{
    hr_group *g;
    HR_TRY(hr_group_create(world, ranks, n, &g));
    if (g)
        *mine = g;
    return HR_OK;
}

void grads_rig_run(int ranks, const char *engine, hr_rank_fn fn, void *arg)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 20, .engine = engine,
                       .device = {HR_INIT(hr_device_opts), .check = 1}};
    if (hr_local_run(ranks, &o, fn, arg) < 0)
        fail_msg("%d ranks, %s: %s", ranks, engine ? engine : "as usual",
                 hr_last_error());
}
