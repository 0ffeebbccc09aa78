/* train_lanes.c: see train_lanes.h. Processes of one host, unless one is in a time namespace of its own, have one
 * clock; of another the distance is measured. */
#include "train_lanes.h"
#include "app_try.h"
#include "share.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIPS = 16, CLOCK_NAME = 96 };
static const char WHAT[] = "timeline";

typedef struct parcel {
    int64_t bytes;
    int64_t same_clock;
} parcel;

/* The same on two ranks only if they have one clock; empty where the system does not say. */
static void name_clock(char out[CLOCK_NAME])
{
    char boot[48] = "", space[40] = "";
    memset(out, 0, CLOCK_NAME);
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && fscanf(f, "%47s", boot) != 1)
        boot[0] = '\0';
    if (f)
        fclose(f);
    ssize_t n = readlink("/proc/self/ns/time", space, sizeof space - 1);
    if (n < 0) /* a kernel without has one clock */
        space[0] = '\0';
    if (boot[0])
        snprintf(out, CLOCK_NAME, "%s %s", boot, space);
}

int64_t hr_app_clock_offset(const clock_trip *trip, int n)
{
    const clock_trip *best = &trip[0];
    for (int i = 1; i < n; i++)
        if (trip[i].back - trip[i].asked < best->back - best->asked)
            best = &trip[i];
    return best->asked + (best->back - best->asked) / 2 - best->told;
}

static hr_status ask_clock(hr_group *world, int rank, int64_t *offset)
{
    clock_trip trip[TRIPS];
    for (int i = 0; i < TRIPS; i++) {
        trip[i].asked = hr_now_ns();
        APP_TRY(hr_app_send(world, WHAT, rank, &trip[i].asked, sizeof trip[i].asked));
        APP_TRY(hr_app_receive(world, WHAT, rank, &trip[i].told, sizeof trip[i].told));
        trip[i].back = hr_now_ns();
    }
    *offset = hr_app_clock_offset(trip, TRIPS);
    return HR_OK;
}

static hr_status tell_clock(hr_group *world)
{
    for (int i = 0; i < TRIPS; i++) {
        int64_t now;
        APP_TRY(hr_app_receive(world, WHAT, 0, &now, sizeof now));
        now = hr_now_ns();
        APP_TRY(hr_app_send(world, WHAT, 0, &now, sizeof now));
    }
    return HR_OK;
}

static hr_status take(hr_group *world, int rank, hr_timeline *t)
{
    parcel p;
    int64_t offset = 0;
    APP_TRY(hr_app_receive(world, WHAT, rank, &p, sizeof p));
    if (!p.same_clock)
        APP_TRY(ask_clock(world, rank, &offset));
    void *bytes = malloc((size_t)p.bytes + 1);
    if (!bytes)
        return hr_fail(HR_ERR_NOMEM, NULL,
                       "no memory for the timeline of rank %d, %lld bytes", rank,
                       (long long)p.bytes);
    hr_status st = hr_app_receive(world, WHAT, rank, bytes, p.bytes);
    if (st >= 0)
        st = hr_timeline_unpack(t, bytes, (size_t)p.bytes, offset);
    free(bytes);
    return st;
}

static hr_status give(hr_group *world, const hr_timeline *t, bool same_clock)
{
    void *bytes;
    size_t n;
    APP_TRY(hr_timeline_pack(t, hr_group_rank(world), &bytes, &n));
    parcel p = {(int64_t)n, same_clock};
    hr_status st = hr_app_send(world, WHAT, 0, &p, sizeof p);
    if (st >= 0 && !same_clock)
        st = tell_clock(world);
    if (st >= 0)
        st = hr_app_send(world, WHAT, 0, bytes, p.bytes);
    free(bytes);
    return st;
}

hr_status hr_app_lanes_collect(hr_group *world, hr_timeline *t)
{
    char mine[CLOCK_NAME], first[CLOCK_NAME];
    name_clock(mine);
    memcpy(first, mine, sizeof first);
    APP_TRY(hr_app_share(world, WHAT, first, sizeof first));
    if (hr_group_rank(world) > 0)
        return give(world, t, mine[0] && strcmp(mine, first) == 0);
    for (int r = 1; r < hr_group_size(world); r++)
        APP_TRY(take(world, r, t));
    return HR_OK;
}
