/* Reads lists of stages, from the text each time: they are short. */
#include "stage_list.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STAGE = 65534 };

static bool number(const char **at, int *out)
{
    if (**at < '0' || **at > '9')
        return false;
    char *end;
    long v = strtol(*at, &end, 10);
    *at = end;
    *out = v > MOST_STAGE ? MOST_STAGE + 1 : (int)v;
    return true;
}

/* The next "3" or "4-7", and the comma behind it. */
static bool range(const char **at, int *first, int *last)
{
    if (!number(at, first))
        return false;
    *last = *first;
    if (**at == '-') {
        (*at)++;
        if (!number(at, last))
            return false;
    }
    if (**at == ',' && (*at)[1])
        (*at)++;
    return *first <= *last && *last <= MOST_STAGE;
}

bool hr_app_stage_list_ok(const char *text)
{
    int first, last;
    if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0)
        return true;
    while (*text)
        if (!range(&text, &first, &last) || *text == ',')
            return false;
    return true;
}

bool hr_app_stage_list_has(const char *text, int stage)
{
    int first, last;
    if (strcmp(text, "all") == 0)
        return true;
    while (range(&text, &first, &last))
        if (stage >= first && stage <= last)
            return true;
    return false;
}

int hr_app_stage_list_last(const char *text)
{
    int first, last, most = -1;
    while (range(&text, &first, &last))
        most = last > most ? last : most;
    return most;
}
