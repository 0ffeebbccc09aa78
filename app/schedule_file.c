/* schedule_file.c: see schedule_file.h. */
#include "schedule_file.h"
#include "app_try.h"
#include "whole_text.h"

#include <stdlib.h>

enum { MOST_TEXT = 64 << 20 }; /* what the library reads */

hr_status hr_app_schedule_at(const char *option, const char *path, hr_status st)
{
    return st < 0 ? hr_fail(st, hr_last_reason(), "%s %s: %s", option, path,
                            hr_last_error())
                  : st;
}

hr_status hr_app_schedule_read(const char *option, const char *path, hr_schedule **out)
{
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    APP_TRY(hr_app_read_file(path, MOST_TEXT, &text, &n));
    hr_status st = hr_app_is_csv(path) ? hr_schedule_parse_csv(text, n, out)
                                       : hr_schedule_parse(text, n, out);
    free(text);
    return hr_app_schedule_at(option, path, st);
}
