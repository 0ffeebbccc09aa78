/* The one clock: spans, deadlines and imitated links all read it. */
#include "headrace/base.h"

#include <time.h>

int64_t hr_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
