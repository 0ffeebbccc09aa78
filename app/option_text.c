/* option_text.c: see option_text.h. */
#include "option_text.h"
#include <stdlib.h>

/* Few digits where they are enough. */
static void put_real(double v, FILE *to)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", v);
    if (strtod(text, NULL) < v || strtod(text, NULL) > v)
        snprintf(text, sizeof text, "%.17g", v);
    fputs(text, to);
}

void hr_app_option_put(const option_spec *s, const void *target, FILE *to)
{
    const void *at = (const char *)target + s->offset;
    switch (s->kind) {
    case OPTION_INT:
        fprintf(to, "%d", *(const int *)at);
        break;
    case OPTION_INT64:
        fprintf(to, "%lld", (long long)*(const int64_t *)at);
        break;
    case OPTION_REAL:
        put_real(*(const double *)at, to);
        break;
    case OPTION_CHOICE:
        fputs(s->words[*(const int *)at], to);
        break;
    case OPTION_FLAG:
        fputs(*(const int *)at ? "on" : "off", to);
        break;
    case OPTION_TEXT:
        fputs(at, to);
        break;
    case OPTION_HEADING:
        break;
    }
}
