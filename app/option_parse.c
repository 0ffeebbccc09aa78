/* Reads a command line, or one value, by a table of options. */
#include "app_try.h"
#include "nearest.h"
#include "option_spec.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPTIONS = 64 }; /* bits of an option_set */

void hr_app_option_defaults(const option_table *t, void *target)
{
    for (int i = 0; i < t->n; i++) {
        const option_spec *s = &t->spec[i];
        if (s->kind == OPTION_HEADING)
            continue;
        hr_status st = hr_app_option_set(s, s->name, s->fallback, target);
        (void)st; /* a test holds every fallback to its own range */
    }
}

int hr_app_option_find(const option_table *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (t->spec[i].kind != OPTION_HEADING && strcmp(t->spec[i].name, name) == 0)
            return i;
    return -1;
}

const char *hr_app_option_nearest(const option_table *t, const char *name)
{
    const char *words[MOST_OPTIONS + 1];
    int n = 0;
    for (int i = 0; i < t->n && n < MOST_OPTIONS; i++)
        if (t->spec[i].kind != OPTION_HEADING)
            words[n++] = t->spec[i].name;
    words[n++] = "help";
    return words[hr_app_nearest(name, words, n)];
}

/* ---- one value -------------------------------------------------------------------------- */
static hr_status out_of_range(const option_spec *s, const char *label,
                              const char *value, bool below)
{
    return hr_fail(HR_ERR_INVALID, "option_range",
                   "%s %s: outside %.16g to %.16g; the nearest valid value is %.16g",
                   label, value, s->min, s->max, below ? s->min : s->max);
}

static hr_status read_whole(const option_spec *s, const char *label, const char *value,
                            long long *out)
{
    char *end = NULL;
    errno = 0;
    long long v = strtoll(value, &end, 10);
    if (end == value || *end != '\0')
        return hr_fail(HR_ERR_INVALID, "option_value",
                       "%s wants a whole number (%.16g to %.16g), not '%s'", label,
                       s->min, s->max, value);
    if (errno == ERANGE || (double)v < s->min || (double)v > s->max)
        return out_of_range(s, label, value, v < 0 || (double)v < s->min);
    *out = v;
    return HR_OK;
}

static hr_status read_real(const option_spec *s, const char *label, const char *value,
                           double *out)
{
    char *end = NULL;
    double v = strtod(value, &end);
    if (end == value || *end != '\0' || isnan(v))
        return hr_fail(HR_ERR_INVALID, "option_value",
                       "%s wants a number (%.16g to %.16g), not '%s'", label, s->min,
                       s->max, value);
    if (v < s->min || v > s->max)
        return out_of_range(s, label, value, v < s->min);
    *out = v;
    return HR_OK;
}

static hr_status read_choice(const option_spec *s, const char *label, const char *value,
                             int *out)
{
    char all[256] = "";
    int n = 0;
    for (; s->words[n]; n++) {
        if (strcmp(s->words[n], value) == 0) {
            *out = n;
            return HR_OK;
        }
        size_t len = strlen(all);
        snprintf(all + len, sizeof all - len, "%s%s", n ? ", " : "", s->words[n]);
    }
    return hr_fail(HR_ERR_INVALID, "option_value",
                   "%s '%s': not one of %s; the nearest is '%s'", label, value, all,
                   s->words[hr_app_nearest(value, s->words, n)]);
}

static hr_status read_flag(const char *label, const char *value, int *out)
{
    *out = strcmp(value, "on") == 0;
    if (*out || strcmp(value, "off") == 0)
        return HR_OK;
    return hr_fail(HR_ERR_INVALID, "option_value", "%s is on or off, not '%s'", label,
                   value);
}

hr_status hr_app_option_set(const option_spec *s, const char *label, const char *value,
                            void *target)
{
    void *to = target ? (char *)target + s->offset : NULL;
    long long whole = 0;
    double real = 0;
    int word = 0;
    switch (s->kind) {
    case OPTION_INT:
    case OPTION_INT64:
        APP_TRY(read_whole(s, label, value, &whole));
        if (to && s->kind == OPTION_INT)
            *(int *)to = (int)whole;
        else if (to)
            *(int64_t *)to = whole;
        return HR_OK;
    case OPTION_REAL:
        APP_TRY(read_real(s, label, value, &real));
        if (to)
            *(double *)to = real;
        return HR_OK;
    case OPTION_CHOICE:
    case OPTION_FLAG:
        APP_TRY(s->kind == OPTION_FLAG ? read_flag(label, value, &word)
                                       : read_choice(s, label, value, &word));
        if (to)
            *(int *)to = word;
        return HR_OK;
    case OPTION_TEXT:
        if (strlen(value) >= s->room)
            return hr_fail(HR_ERR_INVALID, "option_range",
                           "%s: %zu characters, but at most %zu are taken", label,
                           strlen(value), s->room - 1);
        if (s->words)
            APP_TRY(read_choice(s, label, value, &word));
        if (to)
            memcpy(to, value, strlen(value) + 1);
        return HR_OK;
    case OPTION_HEADING:
        break;
    }
    return HR_OK;
}

/* ---- the command line ------------------------------------------------------------------- */
/* One argument, which may take the next: `*at` stands behind what was read. */
static hr_status parse_one(const option_table *t, int argc, char *const *argv, int *at,
                           void *target, option_set *given)
{
    const char *arg = argv[(*at)++];
    if (strncmp(arg, "--", 2) != 0 || !arg[2])
        return hr_fail(HR_ERR_INVALID, "option_unknown",
                       "'%s' is no option; the nearest is --%s", arg,
                       hr_app_option_nearest(t, arg + strspn(arg, "-")));
    const char *equals = strchr(arg, '=');
    char name[64];
    snprintf(name, sizeof name, "%.*s",
             equals ? (int)(equals - arg) - 2 : (int)sizeof name - 1, arg + 2);
    int i = hr_app_option_find(t, name);
    if (i < 0)
        return hr_fail(HR_ERR_INVALID, "option_unknown",
                       "there is no option --%s; the nearest is --%s", name,
                       hr_app_option_nearest(t, name));
    const option_spec *s = &t->spec[i];
    char label[72];
    snprintf(label, sizeof label, "--%s", name);
    const char *value = equals ? equals + 1 : NULL;
    if (!value && s->kind == OPTION_FLAG)
        value = "on";
    else if (!value && *at < argc && strncmp(argv[*at], "--", 2) != 0)
        value = argv[(*at)++];
    if (!value)
        return hr_fail(HR_ERR_INVALID, "option_value", "%s wants a value: %s %s", label,
                       label, s->arg);
    *given |= (option_set)1 << i;
    return hr_app_option_set(s, label, value, target);
}

hr_status hr_app_option_parse(const option_table *t, int argc, char *const *argv,
                              void *target, option_set *given)
{
    *given = 0;
    for (int at = 0; at < argc; at++)
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0)
            return HR_PENDING;
    for (int at = 0; at < argc;)
        APP_TRY(parse_one(t, argc, argv, &at, target, given));
    return HR_OK;
}
