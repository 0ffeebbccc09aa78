/* checkpoint_meta.c: see checkpoint_meta.h. */
#include "checkpoint_meta.h"
#include "app_try.h"
#include "option_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The fields of a shape, by the options of `train` that set them and say what is valid. */
#define NUMBER(name, member)                                                           \
    {                                                                                  \
        name, offsetof(model_shape, member), false                                     \
    }
#define OFF_ON(name, member)                                                           \
    {                                                                                  \
        name, offsetof(model_shape, member), true                                      \
    }
static const struct field {
    const char *name;
    size_t offset;
    bool off_on;
} fields[] = {
    NUMBER("layers", layers),
    NUMBER("width", width),
    NUMBER("heads", heads),
    NUMBER("experts", experts),
    NUMBER("top-k", top_k),
    NUMBER("expert-width", expert_width),
    NUMBER("dense-layers", dense_layers),
    NUMBER("dense-width", dense_width),
    NUMBER("shared-width", shared_width),
    NUMBER("seq", seq),
    OFF_ON("tie-embeddings", tie_embeddings),
    OFF_ON("mtp", mtp),
};
enum { FIELDS = sizeof fields / sizeof fields[0] };
_Static_assert(FIELDS + 6 <= META_MOST, "room for what is not of the shape");

static int field_of(const model_shape *m, int i)
{
    return *(const int *)((const char *)m + fields[i].offset);
}

/* ---- writing ------------------------------------------------------------------------------- */
static void add_text(checkpoint_texts *t, const char *key, const char *value)
{
    t->list[t->n++] = (st_meta){key, value};
}

static void add_number(checkpoint_texts *t, const char *key, int64_t value)
{
    char *text = t->number[t->n];
    snprintf(text, sizeof t->number[0], "%lld", (long long)value);
    add_text(t, key, text);
}

static void begin(const checkpoint_info *info, checkpoint_texts *t)
{
    t->n = 0;
    add_text(t, "format", "pt");
    add_text(t, "headrace.format", CHECKPOINT_FORMAT);
    add_number(t, "step", info->step);
}

void hr_app_meta_of_index(const checkpoint_info *info, checkpoint_texts *t)
{
    begin(info, t);
    for (int i = 0; i < FIELDS; i++)
        add_number(t, fields[i].name, field_of(&info->model, i));
    add_number(t, "updates", info->updates);
    add_number(t, "seed", info->seed);
    if (info->schedule)
        add_text(t, CHECKPOINT_SCHEDULE, info->schedule);
}

void hr_app_meta_of_part(const checkpoint_info *info, int number, int of,
                         checkpoint_texts *t)
{
    begin(info, t);
    add_number(t, "part", number);
    add_number(t, "parts", of);
}

/* ---- reading ------------------------------------------------------------------------------- */
static hr_status read_number(const checkpoint_index *x, const char *key, int64_t least,
                             int64_t most, int64_t *out)
{
    const char *text = hr_app_index_meta(x, key);
    char *end = NULL;
    errno = 0;
    long long v = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text || *end || errno || v < least || v > most)
        return hr_fail(HR_ERR_PARSE, "checkpoint_meta",
                       "'%s' is of no checkpoint: its metadata gives '%.40s' as %s",
                       x->path, text ? text : "nothing", key);
    *out = v;
    return HR_OK;
}

static hr_status read_field(const checkpoint_index *x, const struct field *q,
                            int64_t *out)
{
    const option_table *t = &hr_app_train_table;
    const option_spec *s = &t->spec[hr_app_option_find(t, q->name)];
    return q->off_on ? read_number(x, q->name, 0, 1, out)
                     : read_number(x, q->name, (int64_t)s->min, (int64_t)s->max, out);
}

hr_status hr_app_meta_read(const checkpoint_index *x, checkpoint_info *info)
{
    const char *format = hr_app_index_meta(x, "headrace.format");
    if (!format || strcmp(format, CHECKPOINT_FORMAT) != 0)
        return hr_fail(
            HR_ERR_PARSE, "checkpoint_meta",
            "'%s' is of no checkpoint of this program: its format is '%.40s', "
            "not '" CHECKPOINT_FORMAT "'",
            x->path, format ? format : "not named");
    for (int i = 0; i < FIELDS; i++) {
        int64_t v = 0;
        APP_TRY(read_field(x, &fields[i], &v));
        *(int *)((char *)&info->model + fields[i].offset) = (int)v;
    }
    APP_TRY(read_number(x, "step", 0, INT64_MAX, &info->step));
    APP_TRY(read_number(x, "updates", 0, INT64_MAX, &info->updates));
    return read_number(x, "seed", 0, INT64_MAX, &info->seed);
}

/* As one would type it. */
static const char *value_text(int i, const model_shape *m, char text[16])
{
    int v = field_of(m, i);
    if (fields[i].off_on)
        return v ? "on" : "off";
    snprintf(text, 16, "%d", v);
    return text;
}

hr_status hr_app_checkpoint_check(const char *path, const model_shape *have,
                                  const model_shape *want)
{
    char has[16], runs[16];
    for (int i = 0; i < FIELDS; i++)
        if (field_of(have, i) != field_of(want, i))
            return hr_fail(HR_ERR_MISMATCH, "checkpoint_shape",
                           "the checkpoint of '%s' has --%s %s, but this run %s", path,
                           fields[i].name, value_text(i, have, has),
                           value_text(i, want, runs));
    return HR_OK;
}
