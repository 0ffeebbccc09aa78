/* checkpoint_index.c: see checkpoint_index.h. */
#include "checkpoint_index.h"
#include "app_try.h"
#include "safetensors_sum.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL    "total_size"
#define CHECKSUM "headrace.checksum"

/* ---- its checksum: a sum over what is in it, whatever the order ---------------------------- */
static uint64_t sum_of_texts(const json_t *object, const char *but)
{
    const char *key;
    json_t *value;
    uint64_t sum = 0;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (json_is_string(value) && strcmp(key, but) != 0)
            sum += hr_app_st_sum_meta(key, json_string_value(value));
    }
    return sum;
}

static uint64_t sum_of_files(const json_t *files)
{
    const char *key;
    json_t *value;
    uint64_t sum = 0;
    json_object_foreach((json_t *)(uintptr_t)files, key, value)
    {
        const char *text = json_string_value(json_object_get(value, "checksum"));
        uint64_t bytes = (uint64_t)json_integer_value(json_object_get(value, "bytes"));
        sum += bytes * hr_app_st_sum_meta(key, text ? text : "");
    }
    return sum;
}

static void sum_of_index(const json_t *root, char text[ST_SUM_TEXT])
{
    const json_t *meta = json_object_get(root, "metadata");
    uint64_t total = (uint64_t)json_integer_value(json_object_get(meta, TOTAL));
    uint64_t sum = sum_of_texts(meta, CHECKSUM) + 3 * total;
    sum += 5 * sum_of_texts(json_object_get(root, "weight_map"), "");
    sum += 7 * sum_of_files(json_object_get(root, "files"));
    hr_app_st_sum_text(sum, text);
}

/* ---- reading ------------------------------------------------------------------------------- */
static hr_status no_memory(const char *path)
{
    return hr_fail(HR_ERR_NOMEM, NULL, "no memory to read '%s'", path);
}

static hr_status malformed(const checkpoint_index *x, const char *why)
{
    return hr_fail(HR_ERR_PARSE, "checkpoint_index", "'%s': %s", x->path, why);
}

static hr_status read_meta(const checkpoint_index *x)
{
    const char *key;
    json_t *value, *meta = json_object_get(x->root, "metadata");
    if (!json_is_object(meta))
        return malformed(x, "no object \"metadata\": no index of a checkpoint");
    json_object_foreach(meta, key, value)
    {
        if (!json_is_string(value) && strcmp(key, TOTAL) != 0)
            return malformed(x, "\"metadata\" holds what is not a text");
    }
    return HR_OK;
}

static bool is_plain(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

static hr_status read_files(checkpoint_index *x)
{
    const char *key;
    json_t *value, *files = json_object_get(x->root, "files");
    x->files = calloc(json_object_size(files) + 1, sizeof *x->files);
    if (!x->files)
        return no_memory(x->path);
    json_object_foreach(files, key, value)
    {
        index_file *f = &x->files[x->n_files++];
        const json_t *bytes = json_object_get(value, "bytes");
        const char *sum = json_string_value(json_object_get(value, "checksum"));
        if (!is_plain(key) || !json_is_integer(bytes) ||
            json_integer_value(bytes) < 0 || !sum || strlen(sum) >= ST_SUM_TEXT)
            return hr_fail(HR_ERR_PARSE, "checkpoint_index",
                           "'%s': file '%.100s' wants a plain name, bytes and checksum",
                           x->path, key);
        f->name = key;
        f->identity.bytes = json_integer_value(bytes);
        snprintf(f->identity.sum, sizeof f->identity.sum, "%s", sum);
    }
    return HR_OK;
}

/* "17" and what follows it; false: no number that fits. */
static bool read_number(const char **text, int64_t *out)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)**text))
        return false;
    *out = strtoll(*text, &end, 10);
    *text = end;
    return errno == 0;
}

/* "experts[0:64]" */
static bool read_key(const char *key, index_piece *p)
{
    size_t n = strlen(key);
    *p = (index_piece){.key = key, .name = (int)n, .last = INDEX_WHOLE};
    if (n == 0 || n > 4096)
        return false;
    if (key[n - 1] != ']')
        return true;
    const char *at = strrchr(key, '[');
    if (!at || at == key)
        return false;
    p->name = (int)(at++ - key);
    return read_number(&at, &p->first) && *at++ == ':' && read_number(&at, &p->last) &&
           strcmp(at, "]") == 0 && p->first < p->last;
}

static int file_of(const checkpoint_index *x, const char *name)
{
    for (int i = 0; name && i < x->n_files; i++)
        if (strcmp(x->files[i].name, name) == 0)
            return i;
    return -1;
}

/* Files have their pieces side by side, so the one before is a good guess. */
static int file_near(const checkpoint_index *x, const char *name, int guess)
{
    return name && guess < x->n_files && strcmp(x->files[guess].name, name) == 0
               ? guess
               : file_of(x, name);
}

static int by_name(const index_piece *a, const char *name, int n)
{
    int least = a->name < n ? a->name : n;
    int c = memcmp(a->key, name, (size_t)least);
    return c ? c : a->name - n;
}

static int by_place(const void *a_, const void *b_)
{
    const index_piece *a = a_, *b = b_;
    int c = by_name(a, b->key, b->name);
    if (c != 0)
        return c;
    return a->first != b->first ? (a->first < b->first ? -1 : 1)
                                : (a->last > b->last) - (a->last < b->last);
}

static hr_status read_map(checkpoint_index *x)
{
    const char *key;
    json_t *value, *map = json_object_get(x->root, "weight_map");
    int guess = 0;
    x->pieces = calloc(json_object_size(map) + 1, sizeof *x->pieces);
    if (!x->pieces)
        return no_memory(x->path);
    json_object_foreach(map, key, value)
    {
        index_piece *p = &x->pieces[x->n_pieces++];
        if (!read_key(key, p))
            return hr_fail(HR_ERR_PARSE, "checkpoint_index",
                           "'%s': '%.100s' is no name of a tensor, nor of a piece",
                           x->path, key);
        const char *name = json_string_value(value);
        p->file = guess = file_near(x, name, guess);
        if (guess < 0)
            return hr_fail(HR_ERR_PARSE, "checkpoint_index",
                           "'%s': tensor '%.100s' is in '%.100s', which is not among "
                           "the files",
                           x->path, key, name ? name : "nothing");
    }
    if (x->n_pieces > 1)
        qsort(x->pieces, (size_t)x->n_pieces, sizeof *x->pieces, by_place);
    return HR_OK;
}

/* ---- each element once --------------------------------------------------------------------- */
static hr_status overlap(const checkpoint_index *x, const index_piece *a,
                         const index_piece *b)
{
    return hr_fail(HR_ERR_PARSE, "checkpoint_overlap",
                   "'%s': '%.100s' of '%.100s' and '%.100s' of '%.100s' hold the same "
                   "elements",
                   x->path, a->key, x->files[a->file].name, b->key,
                   x->files[b->file].name);
}

static hr_status gap(const checkpoint_index *x, const index_piece *next, int64_t from)
{
    return hr_fail(HR_ERR_PARSE, "checkpoint_gap",
                   "'%s': elements %lld to %lld of tensor '%.*s' are in no file",
                   x->path, (long long)from, (long long)next->first - 1,
                   next->name < 100 ? next->name : 100, next->key);
}

static hr_status check_pieces(const checkpoint_index *x)
{
    for (int i = 0; i < x->n_pieces; i++) {
        const index_piece *p = &x->pieces[i], *q = i > 0 ? p - 1 : NULL;
        bool first = !q || by_name(p, q->key, q->name) != 0;
        if (!first && (q->last == INDEX_WHOLE || p->first < q->last))
            return overlap(x, q, p);
        int64_t at = first ? 0 : q->last;
        if (p->first > at)
            return gap(x, p, at);
    }
    return HR_OK;
}

static hr_status check_sum(const checkpoint_index *x)
{
    char found[ST_SUM_TEXT];
    const char *said = hr_app_index_meta(x, CHECKSUM);
    sum_of_index(x->root, found);
    if (said && strcmp(said, found) == 0)
        return HR_OK;
    return hr_fail(HR_ERR_PARSE, "checkpoint_index",
                   "'%s': its contents have checksum %s, but %.40s was written: "
                   "damaged or changed",
                   x->path, found, said ? said : "none");
}

static hr_status read_all(checkpoint_index *x, const char *text, size_t n)
{
    json_error_t error;
    x->root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!x->root)
        return hr_fail(HR_ERR_PARSE, "checkpoint_index",
                       "'%s', byte %d: not JSON, or truncated: %s", x->path,
                       error.position, error.text);
    APP_TRY(read_meta(x));
    APP_TRY(read_files(x));
    APP_TRY(read_map(x));
    APP_TRY(check_pieces(x));
    return check_sum(x);
}

hr_status hr_app_index_parse(const char *path, const char *text, size_t n,
                             checkpoint_index **out)
{
    checkpoint_index *x = calloc(1, sizeof *x);
    *out = NULL;
    if (!x || !(x->path = strdup(path))) {
        free(x);
        return no_memory(path);
    }
    hr_status st = read_all(x, text, n);
    if (st < 0)
        hr_app_index_free(x);
    else
        *out = x;
    return st;
}

void hr_app_index_free(checkpoint_index *x)
{
    if (!x)
        return;
    json_decref(x->root);
    free(x->files);
    free(x->pieces);
    free(x->path);
    free(x);
}

const index_piece *hr_app_index_find(const checkpoint_index *x, const char *name,
                                     int *n)
{
    int low = 0, high = x->n_pieces, length = (int)strlen(name);
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (by_name(&x->pieces[mid], name, length) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (*n = 0; low + *n < x->n_pieces; ++*n)
        if (by_name(&x->pieces[low + *n], name, length) != 0)
            break;
    return *n > 0 ? &x->pieces[low] : NULL;
}

const char *hr_app_index_meta(const checkpoint_index *x, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(x->root, "metadata"), key));
}

/* ---- writing ------------------------------------------------------------------------------- */
static int add_file(json_t *root, const char *name, const safetensors *f,
                    json_int_t *total)
{
    st_identity id = hr_app_safetensors_identity(f);
    json_t *map = json_object_get(root, "weight_map");
    int bad = json_object_set_new(
        json_object_get(root, "files"), name,
        json_pack("{s:I, s:s}", "bytes", (json_int_t)id.bytes, "checksum", id.sum));
    for (int i = 0; i < hr_app_safetensors_count(f); i++) {
        const st_tensor *t = hr_app_safetensors_at(f, i);
        bad |= json_object_get(map, t->name) != NULL; /* the whole is not to hide it */
        bad |= json_object_set_new(map, t->name, json_string(name));
        *total += (json_int_t)hr_app_safetensors_bytes(t);
    }
    return bad;
}

hr_status hr_app_index_format(const st_meta *meta, int n_meta, const char *const *names,
                              safetensors *const *at, int n, char **out)
{
    json_int_t total = 0;
    json_t *root = json_pack("{s:{}, s:{}, s:{}}", "metadata", "files", "weight_map");
    json_t *metadata = json_object_get(root, "metadata");
    int bad = root == NULL;
    for (int i = 0; i < n && !bad; i++)
        bad = add_file(root, names[i], at[i], &total);
    if (!bad)
        bad = json_object_set_new(metadata, TOTAL, json_integer(total));
    for (int i = 0; i < n_meta && !bad; i++)
        bad = json_object_set_new(metadata, meta[i].key, json_string(meta[i].value));
    if (!bad) {
        char sum[ST_SUM_TEXT];
        sum_of_index(root, sum);
        bad = json_object_set_new(metadata, CHECKSUM, json_string(sum));
    }
    *out = bad ? NULL : json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return *out ? HR_OK
                : hr_fail(HR_ERR_NOMEM, NULL,
                          "the index of a checkpoint: a name is not UTF-8 or in two "
                          "files, or "
                          "there is no memory");
}
