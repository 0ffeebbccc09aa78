/* rows.h: hr_rows_store() and hr_rows_load() as far as they are the same on all engines. */
#ifndef HR_ROWS_H
#define HR_ROWS_H
#include "group/doing.h"
#include "group/group_ops.h"

/* What the n members have called with. */
typedef struct hr__rows_view {
    int n;
    const int *global;
    const hr_rows *(*of)(const void *ctx, int member);
    const void *ctx;
} hr__rows_view;

/* The members' counts are the same and fit their plain memory. */
hr_status hr__rows_check(const hr__rows_view *v, hr__where where);
/* Member `me` stores or loads its rows. */
void hr__rows_move(const hr__call *c, int n, int me);
/* Bytes that the busier direction carries from or to other ranks. */
int64_t hr__rows_bytes(const hr__call *c, int n, int me);
int hr__rows_declare(const hr__call *c, int n, int me, hr_operand *o); /* 3 operands */

#endif
