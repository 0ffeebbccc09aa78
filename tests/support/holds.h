/* For functions of a test that run on other threads than the main one, where nothing may be asserted: they
 * return a status, and the main thread asserts that. */
#ifndef TEST_HOLDS_H
#define TEST_HOLDS_H
#include "headrace/base.h"

#define HOLDS(cond)                                                                    \
    do {                                                                               \
        if (!(cond))                                                                   \
            return hr_fail(HR_ERR_MISMATCH, "holds", "%s:%d: not %s (last: %s)",       \
                           __FILE__, __LINE__, #cond, hr_last_error());                \
    } while (0)

#endif
