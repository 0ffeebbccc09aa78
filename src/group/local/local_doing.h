/* local_doing.h: where a rank of a local job is, over all its channels; see group/doing.h. */
#ifndef HR_LOCAL_DOING_H
#define HR_LOCAL_DOING_H
#include "group/doing.h"

struct hr__channel;

/* Append where the rank is: "; rank 1 is in ...", or that it is in no operation and which one of
 * `ch` was its last. */
/* The same but for the last; how many operations it is in. */
int hr__doing_under_way(char *buf, size_t cap, struct hr__channel *ch, int member);
void hr__doing_list(char *buf, size_t cap, struct hr__channel *ch, int member);

#endif
