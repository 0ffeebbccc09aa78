/* A JSON file of options, read by the table of the sub-command. Values become text and go the way of the
 * command line, so that ranges and messages are the same. */
#include "config_json.h"
#include "app_try.h"
#include "whole_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_of(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a text",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return names[json_typeof(v)];
}

/* The value as one would type it, if its type suits the option. */
static bool as_typed(const option_spec *s, const json_t *v, char *out, size_t room)
{
    bool number =
        s->kind == OPTION_INT || s->kind == OPTION_INT64 || s->kind == OPTION_REAL;
    if (number && json_is_integer(v))
        return snprintf(out, room, "%lld", (long long)json_integer_value(v)) > 0;
    if (number && json_is_real(v))
        return snprintf(out, room, "%.17g", json_real_value(v)) > 0;
    if (number)
        return false;
    if (json_is_boolean(v) && s->kind != OPTION_TEXT)
        return snprintf(out, room, "%s", json_is_true(v) ? "on" : "off") > 0;
    if (!json_is_string(v) || json_string_length(v) != strlen(json_string_value(v)))
        return false;
    return (size_t)snprintf(out, room, "%s", json_string_value(v)) < room;
}

static hr_status set_key(const option_table *t, const char *name, const char *key,
                         const json_t *value, void *target, option_set *given)
{
    int i = hr_app_option_find(t, key);
    if (i < 0)
        return hr_fail(HR_ERR_INVALID, "config_key",
                       "'%s': there is no option '%.64s'; the nearest is '%s'", name,
                       key, hr_app_option_nearest(t, key));
    const option_spec *s = &t->spec[i];
    if (strcmp(key, "config") == 0)
        return hr_fail(HR_ERR_INVALID, "config_key",
                       "'%s': 'config' names a file on the command line only", name);
    enum { ROOM = 8192 };
    char *typed = malloc(ROOM);
    if (!typed)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to read '%s'", name);
    char label[512];
    snprintf(label, sizeof label, "'%.400s': %s", name, key);
    hr_status st;
    option_set bit = (option_set)1 << i;
    if (!as_typed(s, value, typed, ROOM))
        st = hr_fail(HR_ERR_INVALID, "config_value",
                     "%s cannot be %s; it is given as %s", label, kind_of(value),
                     s->kind == OPTION_TEXT || s->kind == OPTION_CHOICE ? "text"
                     : s->kind == OPTION_FLAG ? "true or false"
                                              : "a number");
    else
        st = hr_app_option_set(s, label, typed, *given & bit ? NULL : target);
    *given |= bit;
    free(typed);
    return st;
}

hr_status hr_app_config_parse(const option_table *t, const char *name, const char *text,
                              size_t n, void *target, option_set *given)
{
    json_error_t error;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return hr_fail(HR_ERR_PARSE, "config_json",
                       "'%s' is not JSON: line %d, column %d: %s", name, error.line,
                       error.column, error.text);
    hr_status st = HR_OK;
    const char *key;
    json_t *value;
    if (!json_is_object(root))
        st = hr_fail(HR_ERR_PARSE, "config_json",
                     "'%s' holds %s where an object of options is wanted", name,
                     kind_of(root));
    else
        json_object_foreach(root, key, value)
        {
            st = set_key(t, name, key, value, target, given);
            if (st < 0)
                break;
        }
    json_decref(root);
    return st;
}

hr_status hr_app_config_read(const option_table *t, const char *path, void *target,
                             option_set *given)
{
    enum { MOST = 1 << 20 }; /* bytes: hundreds of times all options */
    char *text = NULL;
    size_t n = 0;
    APP_TRY(hr_app_read_file(path, MOST, &text, &n));
    hr_status st = hr_app_config_parse(t, path, text, n, target, given);
    free(text);
    return st;
}
