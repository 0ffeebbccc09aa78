/* Text cut into lines and words, for the readers. Internal to src/schedule. */
#ifndef HR_SCHEDULE_TEXT_H
#define HR_SCHEDULE_TEXT_H
#include "schedule/action_text.h"

typedef struct hr__lines {
    const char *next, *end; /* what is not read yet */
    int line;               /* the number of the one that was read, from 1 */
} hr__lines;

/* The next line into [*at, *stop), without its end (LF, or CR LF). False after the last. */
bool hr__line(hr__lines *l, const char **at, const char **stop);

/* Refuses a text that is too large, and one with a byte that is not printable ASCII. */
hr_status hr__text_check(const char *text, size_t bytes);

/* ERR_PARSE: "line 3, field 2 '0X1': no such action". */
hr_status hr__field_fail(int line, int field, const char *at, const char *end,
                         const char *why);

#endif
