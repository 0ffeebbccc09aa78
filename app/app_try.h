/* How an error travels up inside the program. The library's own macro is internal to it. */
#ifndef HR_APP_TRY_H
#define HR_APP_TRY_H
#include "headrace/base.h"

#define APP_TRY(expr)                                                                  \
    do {                                                                               \
        hr_status st_ = (expr);                                                        \
        if (st_ < 0)                                                                   \
            return st_;                                                                \
    } while (0)

#define APP_TRY_GOTO(st, expr, label)                                                  \
    do {                                                                               \
        (st) = (expr);                                                                 \
        if ((st) < 0)                                                                  \
            goto label;                                                                \
    } while (0)

#endif
