/* share.h: bytes of the host from rank to rank, beside the training: over the world, on the calling thread's
 * current stream. All block. `what` is for failures.
 */
#ifndef HR_APP_SHARE_H
#define HR_APP_SHARE_H
#include "headrace/group.h"

/* Rank 0's to all. Collective. */
hr_status hr_app_share(hr_group *world, const char *what, void *host, int64_t bytes);
/* The same where only rank 0 knows how many; *out is the caller's, for free(). */
hr_status hr_app_share_all(hr_group *world, const char *what, const void *mine,
                           int64_t bytes, void **out, int64_t *got);
/* `bytes` of each rank to all: all[r * bytes] on are rank r's. Collective. */
hr_status hr_app_share_each(hr_group *world, const char *what, const void *mine,
                            int64_t bytes, void *all);
hr_status hr_app_send(hr_group *world, const char *what, int to, const void *host,
                      int64_t bytes);
hr_status hr_app_receive(hr_group *world, const char *what, int from, void *host,
                         int64_t bytes);

#endif
