/* share.c: see share.h. What is sent lies in a tensor meanwhile, for ranks talk from device memory. */
#include "share.h"
#include "app_try.h"
#include <stdlib.h>
#include <string.h>

typedef hr_status (*transfer)(hr_group *world, void *at, int64_t bytes, int peer);

static hr_status run(hr_group *world, const char *what, transfer fn, int peer,
                     const void *out, void *in, int64_t bytes)
{
    hr_tensor *t;
    APP_TRY(hr_tensor_create(HR_U8, 1, &bytes, &t));
    hr_group_set_label(world, &(hr_op_label){what, -1, -1, -1});
    hr_status st = out ? hr_tensor_write(t, out, (size_t)bytes) : HR_OK;
    if (st >= 0)
        st = fn(world, hr_tensor_data(t), bytes, peer);
    if (st >= 0 && in)
        st = hr_tensor_read(t, in, (size_t)bytes);
    else if (st >= 0)
        st = hr_stream_synchronize(hr_stream_current());
    hr_group_set_label(world, NULL);
    hr_tensor_release(t);
    return st;
}

static hr_status broadcast(hr_group *world, void *at, int64_t bytes, int root)
{
    return hr_broadcast(world, at, (size_t)bytes, root, hr_stream_current());
}

static hr_status message(hr_group *world, void *at, int64_t bytes, int peer, bool send)
{
    hr_p2p m = {.send = send, .peer = peer, .buf = at, .bytes = (size_t)bytes};
    return hr_group_batch(world, &m, 1, hr_stream_current());
}

static hr_status send(hr_group *world, void *at, int64_t bytes, int to)
{
    return message(world, at, bytes, to, true);
}

static hr_status receive(hr_group *world, void *at, int64_t bytes, int from)
{
    return message(world, at, bytes, from, false);
}

hr_status hr_app_share(hr_group *world, const char *what, void *host, int64_t bytes)
{
    bool mine = hr_group_rank(world) == 0;
    return run(world, what, broadcast, 0, mine ? host : NULL, mine ? NULL : host,
               bytes);
}

hr_status hr_app_share_all(hr_group *world, const char *what, const void *mine,
                           int64_t bytes, void **out, int64_t *got)
{
    *out = NULL;
    *got = bytes;
    APP_TRY(hr_app_share(world, what, got, sizeof *got));
    void *all = malloc((size_t)*got + 1);
    if (!all)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %lld bytes of %s",
                       (long long)*got, what);
    if (hr_group_rank(world) == 0)
        memcpy(all, mine, (size_t)bytes);
    hr_status st = hr_app_share(world, what, all, *got);
    if (st < 0)
        free(all);
    else
        *out = all;
    return st;
}

/* One after the other, as each is a few bytes. */
hr_status hr_app_share_each(hr_group *world, const char *what, const void *mine,
                            int64_t bytes, void *all)
{
    int me = hr_group_rank(world), n = hr_group_size(world);
    hr_status st = HR_OK;
    for (int r = 0; r < n && st >= 0; r++) {
        void *at = (char *)all + r * bytes;
        if (r == me)
            memcpy(at, mine, (size_t)bytes);
        st = run(world, what, broadcast, r, r == me ? at : NULL, r == me ? NULL : at,
                 bytes);
    }
    return st;
}

hr_status hr_app_send(hr_group *world, const char *what, int to, const void *host,
                      int64_t bytes)
{
    return run(world, what, send, to, host, NULL, bytes);
}

hr_status hr_app_receive(hr_group *world, const char *what, int from, void *host,
                         int64_t bytes)
{
    return run(world, what, receive, from, NULL, host, bytes);
}
