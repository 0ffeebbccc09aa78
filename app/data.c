/* Loads the text and cuts it into batches. Finding files: data_tree.c. */
#include "data.h"
#include "app_try.h"
#include "counter.h" /* hr_app_mix */
#include "data_tree.h"
#include "whole_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VALIDATION_SHARE = 20 }; /* one file in so many */

typedef struct text {
    uint8_t *bytes;
    size_t n;
    int files;
} text;

struct data_set {
    char *path;
    text part[DATA_PARTS];
};

/* A file of a tree while it is loaded: its bytes lie in the arena that all share. */
typedef struct piece {
    const char *path;
    size_t allotted; /* at most so many are read */
    size_t at, n;
    uint64_t hash;
    bool validation;
} piece;

typedef struct loading {
    const char *root;
    piece *piece;
    size_t n;
    uint8_t *arena;
    char refused[512]; /* the first file that was left out, and why */
    int left_out;
} loading;

/* FNV-1a, mixed, so that its low digits are as good as any. */
static uint64_t path_hash(const char *path)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *path; path++)
        h = (h ^ (uint8_t)*path) * 0x100000001b3u;
    return hr_app_mix(h);
}

static hr_status no_memory(const char *path)
{
    return hr_fail(HR_ERR_NOMEM, NULL, "no memory to load '%s'", path);
}

static hr_status refuse_binary(const char *path)
{
    return hr_fail(HR_ERR_INVALID, "data_binary",
                   "'%s' holds binary data (a zero byte), not text", path);
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = (*(piece *const *)a)->hash, y = (*(piece *const *)b)->hash;
    return x < y ? -1 : x > y;
}

/* Gives bytes to files in order of their hash until `cap` is reached; the rest get none. Returns all
 * that was given. */
static hr_status allot(loading *l, const data_tree *tree, size_t cap, size_t *all)
{
    piece **order = malloc(tree->n * sizeof *order);
    l->piece = calloc(tree->n, sizeof *l->piece);
    if (!order || !l->piece) {
        free(order);
        return no_memory(l->root);
    }
    l->n = tree->n;
    for (size_t i = 0; i < tree->n; i++) {
        l->piece[i].path = tree->file[i].path;
        l->piece[i].hash = path_hash(tree->file[i].path);
        order[i] = &l->piece[i];
    }
    qsort(order, tree->n, sizeof(piece *), by_hash);
    *all = 0;
    for (size_t i = 0; i < tree->n && *all < cap; i++) {
        size_t bytes = tree->file[order[i] - l->piece].bytes;
        order[i]->allotted = bytes < cap - *all ? bytes : cap - *all;
        *all += order[i]->allotted;
    }
    free(order);
    return HR_OK;
}

static void leave_out(loading *l)
{
    if (l->left_out++ == 0)
        snprintf(l->refused, sizeof l->refused, "%s", hr_last_error());
}

/* Reads the pieces one behind the other; what is binary or cannot be read leaves nothing behind. */
static hr_status read_pieces(loading *l, size_t all)
{
    l->arena = malloc(all + 1);
    if (!l->arena)
        return no_memory(l->root);
    size_t at = 0;
    for (size_t i = 0; i < l->n; i++) {
        piece *p = &l->piece[i];
        if (p->allotted == 0)
            continue;
        char full[8192];
        snprintf(full, sizeof full, "%s/%s", l->root, p->path);
        p->at = at;
        if (hr_app_read_into(full, l->arena + at, p->allotted, &p->n) < 0) {
            p->n = 0;
            leave_out(l);
        } else if (memchr(l->arena + at, 0, p->n)) {
            hr_status st = refuse_binary(full);
            (void)st; /* only its sentence is wanted */
            p->n = 0;
            leave_out(l);
        }
        at += p->n;
    }
    return HR_OK;
}

/* By hash; but where there are two files or more neither part stays empty, and a single one is for
 * training. */
static void choose_validation(loading *l)
{
    piece *least = NULL, *greatest = NULL;
    int train = 0, validation = 0;
    for (size_t i = 0; i < l->n; i++) {
        piece *p = &l->piece[i];
        if (p->n == 0)
            continue;
        p->validation = p->hash % VALIDATION_SHARE == 0;
        train += !p->validation;
        validation += p->validation;
        if (!least || p->hash < least->hash)
            least = p;
        if (!greatest || p->hash > greatest->hash)
            greatest = p;
    }
    if (validation == 0 && train > 1)
        least->validation = true;
    else if (train == 0 && greatest)
        greatest->validation = false;
}

/* The arena becomes the training text: validation files are copied out, the others move up. */
static hr_status split_files(data_set *d, loading *l)
{
    text *train = &d->part[DATA_TRAIN], *validation = &d->part[DATA_VALIDATION];
    size_t bytes = 0;
    choose_validation(l);
    for (size_t i = 0; i < l->n; i++)
        bytes += l->piece[i].validation ? l->piece[i].n : 0;
    validation->bytes = malloc(bytes + 1);
    if (!validation->bytes)
        return no_memory(l->root);
    train->bytes = l->arena;
    for (size_t i = 0; i < l->n; i++) {
        const piece *p = &l->piece[i];
        text *to = p->validation ? validation : train;
        memmove(to->bytes + to->n, l->arena + p->at, p->n);
        to->n += p->n;
        to->files += p->n > 0;
    }
    l->arena = NULL;
    return HR_OK;
}

/* Of a single file, the last tenth. */
static hr_status split_last(data_set *d)
{
    text *train = &d->part[DATA_TRAIN], *validation = &d->part[DATA_VALIDATION];
    size_t bytes = train->n / 10;
    free(validation->bytes);
    validation->bytes = malloc(bytes + 1);
    if (!validation->bytes)
        return no_memory(d->path);
    train->n -= bytes;
    memcpy(validation->bytes, train->bytes + train->n, bytes);
    validation->n = bytes;
    validation->files = 1;
    return HR_OK;
}

static hr_status read_tree(data_set *d, loading *l, data_tree *tree, size_t cap)
{
    size_t all = 0;
    bool headers = strcmp(d->path, "/usr/include") == 0;
    APP_TRY(hr_app_data_tree(d->path, headers, tree));
    if (tree->n == 0)
        return hr_fail(HR_ERR_INVALID, "data_empty",
                       "'%s' is empty: there is no %s with text in it", d->path,
                       headers ? "header" : "file");
    APP_TRY(allot(l, tree, cap, &all));
    APP_TRY(read_pieces(l, all));
    APP_TRY(split_files(d, l));
    if (d->part[DATA_TRAIN].n == 0 && d->part[DATA_VALIDATION].n == 0)
        return hr_fail(HR_ERR_INVALID, "data_binary",
                       "'%s' has no file that can be used; the first: %s", d->path,
                       l->refused);
    if (d->part[DATA_VALIDATION].files == 0)
        return split_last(d);
    return HR_OK;
}

static hr_status load_tree(data_set *d, size_t cap)
{
    data_tree tree = {0};
    loading l = {.root = d->path};
    hr_status st = read_tree(d, &l, &tree, cap);
    if (st == HR_OK && l.left_out > 0)
        hr_log(HR_LOG_WARN, "left out %d of the files; the first: %s", l.left_out,
               l.refused);
    free(l.piece);
    free(l.arena);
    hr_app_data_tree_free(&tree);
    return st;
}

static hr_status load_file(data_set *d, size_t bytes, size_t cap)
{
    text *train = &d->part[DATA_TRAIN];
    size_t most = bytes < cap ? bytes : cap;
    if (bytes == 0)
        return hr_fail(HR_ERR_INVALID, "data_empty", "'%s' is empty", d->path);
    train->bytes = malloc(most + 1);
    if (!train->bytes)
        return no_memory(d->path);
    APP_TRY(hr_app_read_into(d->path, train->bytes, most, &train->n));
    if (memchr(train->bytes, 0, train->n))
        return refuse_binary(d->path);
    train->files = 1;
    return split_last(d);
}

hr_status hr_app_data_open(const char *path, size_t cap, data_set **out)
{
    struct stat info;
    *out = NULL;
    if (stat(path, &info) != 0)
        return hr_fail(HR_ERR_IO, errno == ENOENT ? "data_missing" : "data_unreadable",
                       "cannot read data '%s': %s", path, strerrordesc_np(errno));
    if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))
        return hr_fail(HR_ERR_INVALID, "data_kind",
                       "data '%s' is neither a file nor a folder", path);
    data_set *d = calloc(1, sizeof *d);
    if (!d || !(d->path = strdup(path))) {
        free(d);
        return no_memory(path);
    }
    hr_status st = S_ISDIR(info.st_mode) ? load_tree(d, cap)
                                         : load_file(d, (size_t)info.st_size, cap);
    if (st < 0)
        hr_app_data_close(d);
    else
        *out = d;
    return st;
}

void hr_app_data_close(data_set *d)
{
    if (!d)
        return;
    for (int i = 0; i < DATA_PARTS; i++)
        free(d->part[i].bytes);
    free(d->path);
    free(d);
}

hr_status hr_app_data_check(const data_set *d, int seq)
{
    static const char *const names[DATA_PARTS] = {"training", "validation"};
    for (int i = 0; i < DATA_PARTS; i++)
        if (d->part[i].n < (size_t)seq + 1)
            return hr_fail(HR_ERR_INVALID, "data_short",
                           "--seq %d wants %d bytes, but the %s part of '%s' has %zu",
                           seq, seq + 1, names[i], d->path, d->part[i].n);
    return HR_OK;
}

const uint8_t *hr_app_data_text(const data_set *d, data_part part, size_t *bytes)
{
    *bytes = d->part[part].n;
    return d->part[part].bytes;
}

int hr_app_data_files(const data_set *d, data_part part)
{
    return d->part[part].files;
}

static void cut(const text *t, size_t at, int seq, int32_t *inputs, int32_t *targets)
{
    for (int i = 0; i < seq; i++) {
        inputs[i] = t->bytes[at + (size_t)i];
        targets[i] = t->bytes[at + (size_t)i + 1];
    }
}

void hr_app_data_batch(const data_set *d, int64_t seed, int64_t step, int64_t sequence,
                       int seq, int32_t *inputs, int32_t *targets)
{
    const text *t = &d->part[DATA_TRAIN];
    uint64_t key = hr_app_mix((uint64_t)seed ^ 0x64617461u /* "data" */);
    key = hr_app_mix(key ^ (uint64_t)step);
    key = hr_app_mix(key ^ (uint64_t)sequence);
    cut(t, (size_t)(key % (t->n - (size_t)seq)), seq, inputs, targets);
}

void hr_app_data_window(const data_set *d, int64_t window, int64_t of, int seq,
                        int32_t *inputs, int32_t *targets)
{
    const text *t = &d->part[DATA_VALIDATION];
    uint64_t last = t->n - (size_t)seq - 1;
    uint64_t at = of > 1 ? last * (uint64_t)window / (uint64_t)(of - 1) : 0;
    cut(t, (size_t)at, seq, inputs, targets);
}

double hr_app_data_baseline(const data_set *d)
{
    double count[256], sum = 0, all = 0;
    for (int i = 0; i < 256; i++)
        count[i] = 1;
    const text *train = &d->part[DATA_TRAIN], *other = &d->part[DATA_VALIDATION];
    for (size_t i = 0; i < train->n; i++)
        count[train->bytes[i]]++;
    for (int i = 0; i < 256; i++)
        all += count[i];
    for (size_t i = 0; i < other->n; i++)
        sum -= log(count[other->bytes[i]] / all);
    return other->n ? sum / (double)other->n : 0;
}
