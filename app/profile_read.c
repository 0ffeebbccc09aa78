/* Reads a profile strictly: a number that a plan would be built on is never guessed. */
#include "app_try.h"
#include "profile.h"
#include "profile_fields.h"
#include "whole_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 16 << 20 };

/* The value of `key` into `to`. `owner` is the object in words. */
static hr_status read_field(const char *name, const char *owner, const json_t *v,
                            const profile_field *field, void *to)
{
    if (!v)
        return hr_fail(HR_ERR_PARSE, "profile_key", "'%s': %s has no '%s'", name, owner,
                       field->key);
    bool whole = field->kind != PROFILE_REAL;
    if (whole ? !json_is_integer(v) : !json_is_number(v))
        return hr_fail(HR_ERR_PARSE, "profile_value",
                       "'%s': '%s' of %s has to be a %snumber", name, field->key, owner,
                       whole ? "whole " : "");
    double value = json_number_value(v);
    if (value < field->least || value > field->most)
        return hr_fail(HR_ERR_PARSE, "profile_value",
                       "'%s': '%s' of %s is %.15g, outside %.15g to %.15g", name,
                       field->key, owner, value, field->least, field->most);
    void *at = (char *)to + field->offset;
    if (field->kind == PROFILE_INT)
        *(int *)at = (int)json_integer_value(v);
    else if (field->kind == PROFILE_INT64)
        *(int64_t *)at = json_integer_value(v);
    else
        *(double *)at = value;
    return HR_OK;
}

static bool is_listed(const profile_field *field, const char *key)
{
    for (; field->key; field++)
        if (strcmp(field->key, key) == 0)
            return true;
    return false;
}

/* All of `field` out of an object that has these keys and those of `more` (NULL-ended), no others. */
static hr_status read_fields(const char *name, const char *owner, json_t *object,
                             const profile_field *field, const char *const *more,
                             void *to)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return hr_fail(HR_ERR_PARSE, "profile_value", "'%s': %s is not an object", name,
                       owner);
    json_object_foreach(object, key, value)
    {
        int k = 0;
        while (more[k] && strcmp(more[k], key) != 0)
            k++;
        if (!more[k] && !is_listed(field, key))
            return hr_fail(HR_ERR_PARSE, "profile_key",
                           "'%s': %s has '%.64s', which no profile has", name, owner,
                           key);
    }
    for (; field->key; field++)
        APP_TRY(
            read_field(name, owner, json_object_get(object, field->key), field, to));
    return HR_OK;
}

static hr_status read_row(const char *name, json_t *row, profile *p)
{
    static const char *const more[] = {"name", NULL};
    size_t n = (size_t)hr_app_profile_rows(p);
    if (!json_is_array(row) || json_array_size(row) != n)
        return hr_fail(
            HR_ERR_PARSE, "profile_row",
            "'%s': 'row' has to be a list of %zu: embedding, %d layers, %d of "
            "multi-token prediction, loss; it has %zu",
            name, n, p->layers, p->mtp, json_array_size(row));
    for (size_t i = 0; i < n; i++) {
        char owner[PROFILE_NAME];
        json_t *element = json_array_get(row, i);
        profile_row *r = &p->row[i];
        hr_app_profile_name(p, (int)i, owner);
        APP_TRY(read_fields(name, owner, element, hr_app_profile_row, more, r));
        const char *called = json_string_value(json_object_get(element, "name"));
        if (!called || strcmp(called, owner) != 0)
            return hr_fail(
                HR_ERR_PARSE, "profile_row",
                "'%s': place %zu of 'row' is named '%.64s'; '%s' is expected", name, i,
                called ? called : "", owner);
        if (r->stash_bytes > r->activation_bytes)
            return hr_fail(HR_ERR_PARSE, "profile_value",
                           "'%s': 'stash_bytes' of %s is %lld, above "
                           "'activation_bytes', %lld",
                           name, owner, (long long)r->stash_bytes,
                           (long long)r->activation_bytes);
    }
    return HR_OK;
}

static hr_status read_root(const char *name, json_t *root, profile **out)
{
    static const char *const top[] = {"version", "model", "row", NULL};
    static const char *const none[] = {NULL};
    profile head = {0};
    APP_TRY(read_fields(name, "the profile", root, hr_app_profile_link, top, &head));
    json_t *version = json_object_get(root, "version");
    if (!json_is_integer(version) || json_integer_value(version) != PROFILE_VERSION)
        return hr_fail(HR_ERR_PARSE, "profile_version",
                       "'%s': 'version' has to be %d, the one that is known", name,
                       PROFILE_VERSION);
    APP_TRY(read_fields(name, "'model'", json_object_get(root, "model"),
                        hr_app_profile_model, none, &head));
    APP_TRY(hr_app_profile_create(head.layers, head.mtp, out));
    head.row = (*out)->row;
    **out = head;
    return read_row(name, json_object_get(root, "row"), *out);
}

hr_status hr_app_profile_parse(const char *name, const char *text, size_t n,
                               profile **out)
{
    json_error_t error;
    *out = NULL;
    if (n > MOST_TEXT)
        return hr_fail(HR_ERR_PARSE, "profile_size",
                       "'%s': %zu bytes of profile; at most %d are read", name, n,
                       MOST_TEXT);
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return hr_fail(HR_ERR_PARSE, "profile_json",
                       "'%s' is not JSON: line %d, column %d: %s", name, error.line,
                       error.column, error.text);
    hr_status st = read_root(name, root, out);
    json_decref(root);
    if (st < 0) {
        hr_app_profile_destroy(*out);
        *out = NULL;
    }
    return st;
}

hr_status hr_app_profile_read(const char *path, profile **out)
{
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    APP_TRY(hr_app_read_file(path, MOST_TEXT, &text, &n));
    hr_status st = hr_app_profile_parse(path, text, n, out);
    free(text);
    return st;
}
