/* Status words and the last error of each thread. The sentence lives in thread-local memory of
 * fixed size, so that reporting "out of memory" needs none. */
#include "headrace/base.h"

#include <stdarg.h>
#include <string.h>

#define STR_(x) #x
#define STR(x)  STR_(x)

enum { ERROR_BYTES = 512 };

static _Thread_local char last_error[ERROR_BYTES];
static _Thread_local const char *last_reason = "";

const char *hr_version(void)
{
    return STR(HR_VERSION_MAJOR) "." STR(HR_VERSION_MINOR) "." STR(HR_VERSION_PATCH);
}

const char *hr_status_name(hr_status st)
{
    switch (st) {
#define X(name, value, text)                                                           \
    case HR_##name:                                                                    \
        return #name;
        HR_STATUS_MAP(X)
#undef X
    }
    return "?";
}

const char *hr_status_text(hr_status st)
{
    switch (st) {
#define X(name, value, text)                                                           \
    case HR_##name:                                                                    \
        return text;
        HR_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

hr_status(hr_fail)(hr_status st, const char *reason, const char *fmt, ...)
{
    /* Formatted aside: an argument may be hr_last_error() itself. */
    char sentence[ERROR_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    if (n < 0)
        snprintf(sentence, sizeof sentence, "%s", hr_status_text(st));
    else if ((size_t)n >= sizeof sentence)
        memcpy(sentence + sizeof sentence - 4, "...", 4);
    memcpy(last_error, sentence, sizeof last_error);
    last_reason = reason ? reason : "";
    return st;
}

const char *hr_last_error(void)
{
    return last_error;
}

const char *hr_last_reason(void)
{
    return last_reason;
}

void hr_error_clear(void)
{
    last_error[0] = '\0';
    last_reason = "";
}
