/* How an error travels up: HR_TRY returns it, HR_TRY_GOTO unwinds through a function's one
 * `fail:` label. PENDING is not an error and passes. */
#ifndef HR_TRY_H
#define HR_TRY_H
#include "headrace/base.h"

#define HR_TRY(expr)                                                                   \
    do {                                                                               \
        hr_status st_ = (expr);                                                        \
        if (st_ < 0)                                                                   \
            return st_;                                                                \
    } while (0)

#define HR_TRY_GOTO(st, expr, label)                                                   \
    do {                                                                               \
        (st) = (expr);                                                                 \
        if ((st) < 0)                                                                  \
            goto label;                                                                \
    } while (0)

/* A pointer that the caller has to give: its object, or a place for what is made. */
#define HR_NEED(argument)                                                              \
    do {                                                                               \
        if ((argument) == NULL)                                                        \
            return hr_fail(HR_ERR_INVALID, "no_argument", "%s: `%s` is NULL",          \
                           __func__, #argument);                                       \
    } while (0)

/* Options given by the caller must be the struct this library was built with. */
#define HR_CHECK_OPTS(opts, type)                                                      \
    do {                                                                               \
        if ((opts) != NULL && (opts)->size != sizeof(type))                            \
            return hr_fail(HR_ERR_INVALID, "opts_size",                                \
                           #type ": size is %zu, not %zu; use HR_INIT", (opts)->size,  \
                           sizeof(type));                                              \
    } while (0)

#endif
