/* Symmetric memory of the local engine: windows, and what a collective needs for rows. */
#ifndef HR_LOCAL_SYMMETRIC_H
#define HR_LOCAL_SYMMETRIC_H
#include "group/local/local_channel.h"
#include "group/rows.h"

hr_status hr__local_window_join(hr_group *g, void *base, size_t bytes,
                                hr__window **out);
void hr__local_window_leave(hr__window *w);

/* For the last member to arrive: all have the same counts, and room for their rows. */
hr_status hr__local_rows_check(hr__channel *ch, hr__where where);

#endif
