/* Checkpoints: which file, what its metadata says, which former ones stay. The format is that of
 * safetensors.h. */
#include "checkpoint.h"
#include "app_try.h"
#include "option_spec.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "model.safetensors"
#define FORMAT    "headrace-1"

/* The fields of a shape, by the options of `train` that set them and say what is valid. */
#define NUMBER(name, member)                                                           \
    {                                                                                  \
        name, offsetof(model_shape, member), false, false                              \
    }
#define OFF_ON(name, member, later)                                                    \
    {                                                                                  \
        name, offsetof(model_shape, member), true, later                               \
    }
static const struct field {
    const char *name;
    size_t offset;
    bool off_on;
    bool later; /* files from before it do not say it, and mean 0 */
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
    OFF_ON("tie-embeddings", tie_embeddings, false),
    OFF_ON("mtp", mtp, true),
};
enum { FIELDS = sizeof fields / sizeof fields[0], PATH_ROOM = OPTION_PATH + 64 };

static int field_of(const model_shape *m, int i)
{
    return *(const int *)((const char *)m + fields[i].offset);
}

hr_status hr_app_make_folders(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to make folder '%s'", path);
    int cause = 0;
    for (char *p = copy; *p && !cause; p++) {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        char end = *p;
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            cause = errno;
        *p = end;
        if (!end)
            break;
    }
    free(copy);
    struct stat info;
    if (!cause && stat(path, &info) != 0)
        cause = errno;
    else if (!cause && !S_ISDIR(info.st_mode))
        cause = ENOTDIR;
    return cause ? hr_fail(HR_ERR_IO, "folder", "cannot make folder '%s': %s", path,
                           strerrordesc_np(cause))
                 : HR_OK;
}

/* ---- former checkpoints -------------------------------------------------------------------- */
/* The step in "model-step-00000100.safetensors", -1 for any other name. */
static int64_t step_in_name(const char *name)
{
    long long step = -1;
    int end = 0;
    if (sscanf(name, "model-step-%lld.safetensors%n", &step, &end) == 1 && end > 0 &&
        !name[end])
        return step;
    return -1;
}

/* Removes the oldest until at most `stay` are left. What is not before step `now` was left by an earlier
 * run, and goes first. */
static hr_status prune(const char *folder, int64_t now, int stay)
{
    for (;;) {
        int n = 0;
        int64_t oldest = INT64_MAX;
        char name[256] = "";
        DIR *dir = opendir(folder);
        if (!dir)
            return hr_fail(HR_ERR_IO, "folder", "cannot read '%s': %s", folder,
                           strerrordesc_np(errno));
        for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
            int64_t step = step_in_name(e->d_name);
            int64_t age = step < now ? step : step - INT64_MAX;
            n += step >= 0;
            if (step >= 0 && age < oldest) {
                oldest = age;
                snprintf(name, sizeof name, "%s", e->d_name);
            }
        }
        closedir(dir);
        if (n <= stay)
            return HR_OK;
        char path[PATH_ROOM + 256];
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (unlink(path) != 0)
            return hr_fail(HR_ERR_IO, "file", "cannot remove '%s': %s", path,
                           strerrordesc_np(errno));
    }
}

/* Gives the checkpoint that is about to be replaced a second name, with its step. A file that is there
 * but no checkpoint is not kept. */
static hr_status keep_former(const char *folder, const char *file)
{
    checkpoint_info info;
    safetensors *former = NULL;
    char name[PATH_ROOM + 64];
    if (access(file, F_OK) != 0 || hr_app_checkpoint_open(file, &info, &former) < 0)
        return HR_OK;
    hr_app_safetensors_close(former);
    snprintf(name, sizeof name, "%s/model-step-%08lld.safetensors", folder,
             (long long)info.step);
    if ((unlink(name) != 0 && errno != ENOENT) || link(file, name) != 0)
        return hr_fail(HR_ERR_IO, "file", "cannot keep '%s' as '%s': %s", file, name,
                       strerrordesc_np(errno));
    return HR_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */
hr_status hr_app_checkpoint_write(const char *out, const checkpoint_info *info,
                                  int keep, const st_tensor *tensors, int n)
{
    char folder[PATH_ROOM], file[PATH_ROOM + 32];
    char text[FIELDS + 2][24];
    st_meta meta[FIELDS + 5] = {{"format", "pt"}, {"headrace.format", FORMAT}};
    int m = 2;
    snprintf(folder, sizeof folder, "%s/checkpoint", out);
    snprintf(file, sizeof file, "%s/" FILE_NAME, folder);
    for (int i = 0; i < FIELDS; i++) {
        snprintf(text[i], sizeof text[i], "%d", field_of(&info->model, i));
        meta[m++] = (st_meta){fields[i].name, text[i]};
    }
    snprintf(text[FIELDS], sizeof text[0], "%lld", (long long)info->step);
    snprintf(text[FIELDS + 1], sizeof text[0], "%lld", (long long)info->seed);
    meta[m++] = (st_meta){"step", text[FIELDS]};
    meta[m++] = (st_meta){"seed", text[FIELDS + 1]};
    if (info->schedule)
        meta[m++] = (st_meta){CHECKPOINT_SCHEDULE, info->schedule};
    APP_TRY(hr_app_make_folders(folder));
    if (keep > 1)
        APP_TRY(keep_former(folder, file));
    APP_TRY(hr_app_safetensors_write(file, tensors, n, meta, m));
    return prune(folder, info->step, keep - 1);
}

/* ---- reading ------------------------------------------------------------------------------- */
static hr_status read_number(const safetensors *f, const char *path, const char *key,
                             int64_t least, int64_t most, int64_t *out)
{
    const char *text = hr_app_safetensors_meta(f, key);
    char *end = NULL;
    errno = 0;
    long long v = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text || *end || errno || v < least || v > most)
        return hr_fail(HR_ERR_PARSE, "checkpoint_meta",
                       "'%s' is no checkpoint: its metadata gives '%.40s' as %s", path,
                       text ? text : "nothing", key);
    *out = v;
    return HR_OK;
}

/* Within what `train` takes: whoever builds a model of it counts on sizes that do not overflow. */
static hr_status read_field(const safetensors *f, const char *path,
                            const struct field *q, int64_t *out)
{
    const option_table *t = &hr_app_train_table;
    const option_spec *s = &t->spec[hr_app_option_find(t, q->name)];
    return q->off_on
               ? read_number(f, path, q->name, 0, 1, out)
               : read_number(f, path, q->name, (int64_t)s->min, (int64_t)s->max, out);
}

static hr_status read_info(const safetensors *f, const char *path,
                           checkpoint_info *info)
{
    const char *format = hr_app_safetensors_meta(f, "headrace.format");
    if (!format || strcmp(format, FORMAT) != 0 ||
        !hr_app_safetensors_meta(f, "headrace.checksum"))
        return hr_fail(
            HR_ERR_PARSE, "checkpoint_meta",
            "'%s' is no checkpoint of this program: its format is '%.40s', not "
            "'" FORMAT "' with a checksum",
            path, format ? format : "not named");
    for (int i = 0; i < FIELDS; i++) {
        const struct field *q = &fields[i];
        int64_t v = 0;
        if (!q->later || hr_app_safetensors_meta(f, q->name))
            APP_TRY(read_field(f, path, q, &v));
        *(int *)((char *)&info->model + q->offset) = (int)v;
    }
    APP_TRY(read_number(f, path, "step", 0, INT64_MAX, &info->step));
    return read_number(f, path, "seed", 0, INT64_MAX, &info->seed);
}

/* The file that `path` means: itself, in it, or in the folder `checkpoint` in it. */
static void find_file(const char *path, char *file, size_t room)
{
    struct stat info;
    snprintf(file, room, "%s", path);
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return;
    snprintf(file, room, "%s/" FILE_NAME, path);
    if (access(file, F_OK) != 0)
        snprintf(file, room, "%s/checkpoint/" FILE_NAME, path);
}

hr_status hr_app_checkpoint_open(const char *path, checkpoint_info *info,
                                 safetensors **file)
{
    char where[PATH_ROOM + 32];
    *info = (checkpoint_info){0};
    *file = NULL;
    find_file(path, where, sizeof where);
    APP_TRY(hr_app_safetensors_open(where, file));
    hr_status st = read_info(*file, where, info);
    if (st < 0) {
        hr_app_safetensors_close(*file);
        *file = NULL;
    }
    return st;
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

hr_status hr_app_checkpoint_resume(const train_options *o, checkpoint_info *info,
                                   safetensors **file)
{
    APP_TRY(hr_app_checkpoint_open(o->out, info, file));
    hr_status st = hr_app_checkpoint_check(o->out, &info->model, &o->model);
    if (st == HR_OK && info->step >= o->steps)
        st = hr_fail(HR_ERR_INVALID, "steps",
                     "--resume: '%s' has done %lld steps already; --steps is %lld",
                     o->out, (long long)info->step, (long long)o->steps);
    if (st == HR_OK && info->seed != o->seed)
        st = hr_fail(HR_ERR_MISMATCH, "seed",
                     "--resume: '%s' has --seed %lld, but this run %lld: it would see "
                     "other data",
                     o->out, (long long)info->seed, (long long)o->seed);
    if (st < 0) {
        hr_app_safetensors_close(*file);
        *file = NULL;
    }
    return st;
}
