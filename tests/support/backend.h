/* Which devices a suite opens: host ones, or those that HEADRACE_DEVICE names. */
#ifndef HR_TEST_BACKEND_H
#define HR_TEST_BACKEND_H
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline const char *test_backend(void)
{
    const char *name = getenv("HEADRACE_DEVICE");
    return name && name[0] ? name : "host";
}

static inline bool test_on_host(void)
{
    return strcmp(test_backend(), "host") == 0;
}

#endif
