/* Collectives of the local engine. */
#ifndef HR_LOCAL_COLLECTIVE_H
#define HR_LOCAL_COLLECTIVE_H
#include "group/local/local_channel.h"

hr_status hr__local_collective(hr_group *g, const hr__call *c, hr_stream *s);
hr_status hr__local_batch(hr_group *g, const hr_p2p *ops, int n, hr_stream *s);

#endif
