/* Lines and words of a text, and the sentence that says where one is wrong. */
#include "schedule/schedule_text.h"

#include <string.h>

bool hr__line(hr__lines *l, const char **at, const char **stop)
{
    if (l->next == l->end)
        return false;
    const char *lf = memchr(l->next, '\n', (size_t)(l->end - l->next));
    *at = l->next;
    *stop = lf ? lf : l->end;
    l->next = lf ? lf + 1 : l->end;
    if (*stop > *at && (*stop)[-1] == '\r')
        (*stop)--;
    l->line++;
    return true;
}

hr_status hr__text_check(const char *text, size_t bytes)
{
    if (bytes > HR__MAX_TEXT)
        return hr_fail(HR_ERR_PARSE, "text_size",
                       "%zu bytes of schedule: at most %d are read", bytes,
                       (int)HR__MAX_TEXT);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < ' ' && c != '\n' && c != '\r') || c > '~')
            return hr_fail(HR_ERR_PARSE, "text_bytes",
                           "byte %zu of the schedule is 0x%02x, which no schedule has",
                           i, c);
    }
    return HR_OK;
}

hr_status hr__field_fail(int line, int field, const char *at, const char *end,
                         const char *why)
{
    ptrdiff_t n = end - at;
    return hr_fail(HR_ERR_PARSE, "field", "line %d, field %d '%.*s%s': %s", line, field,
                   (int)(n > 40 ? 40 : n), at, n > 40 ? "..." : "", why);
}
