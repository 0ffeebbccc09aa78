/* Symmetric memory of the local engine: windows, and what a collective needs for rows. */
#ifndef HR_LOCAL_SYMMETRIC_H
#define HR_LOCAL_SYMMETRIC_H
#include "group/local/local_channel.h"

hr_status hr__local_window_join(hr_group *g, void *base, size_t bytes,
                                hr__window **out);
void hr__local_window_leave(hr__window *w);

/* For the last member to arrive: all have the same counts, and room for their rows. */
hr_status hr__rows_check(hr__channel *ch, hr__where where);
/* This member's rows, between the two meetings. */
void hr__rows_move(hr__member *m, const hr__post *p);
/* Bytes that the busier direction of this member's link carries. */
int64_t hr__rows_bytes(const hr__member *m, const hr__post *p);
/* What the launch touches; three at most. */
int hr__rows_declare(const hr__post *p, int n, hr_operand *o);

#endif
