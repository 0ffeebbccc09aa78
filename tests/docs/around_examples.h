/* What stands around a fragment in the documents: the names that it uses without declaring them. */
#include <headrace/headrace.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(expr)                                                                      \
    do {                                                                               \
        hr_status st_ = (expr);                                                        \
        if (st_ < 0)                                                                   \
            return st_;                                                                \
    } while (0)

#ifdef __cplusplus
extern "C" {
#endif
extern hr_device *dev;
extern hr_stream *compute, *comm;
extern hr_event *event;
extern hr_group *world, *pp_group;
extern hr_node *node;
extern hr_tensor *x, *y, *dy, *t;
extern void *layer, *model;
#ifdef __cplusplus
}
#endif
