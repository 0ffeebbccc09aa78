/* Walks a folder. The order in which a file system lists names means nothing, so all is sorted. */
#include "data_tree.h"
#include "app_try.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEEPEST = 64 }; /* folders within folders */

typedef struct walk {
    data_tree *tree;
    const char *root;
    bool headers_only;
} walk;

static bool is_header(const char *name)
{
    const char *dot = strrchr(name, '.');
    return !dot || strcmp(dot, ".h") == 0;
}

static char *join(const char *a, const char *b)
{
    size_t room = strlen(a) + strlen(b) + 2;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s%s%s", a, *a && *b ? "/" : "", b);
    return path;
}

static hr_status no_memory(const walk *w)
{
    return hr_fail(HR_ERR_NOMEM, NULL, "no memory to list '%s'", w->root);
}

/* Takes `path`. */
static hr_status add(const walk *w, char *path, size_t bytes)
{
    data_tree *t = w->tree;
    if (t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 256;
        data_file *more = realloc(t->file, room * sizeof *more);
        if (!more) {
            free(path);
            return no_memory(w);
        }
        t->file = more;
        t->room = room;
    }
    t->file[t->n++] = (data_file){path, bytes};
    return HR_OK;
}

static hr_status visit(const walk *w, const char *relative, int depth);

/* Takes `path`, relative to the root; `full` is where it lies. */
static hr_status entry(const walk *w, char *path, const char *full, int depth)
{
    struct stat info;
    hr_status st = HR_OK;
    const char *slash = strrchr(path, '/');
    if (lstat(full, &info) != 0) {
        hr_log(HR_LOG_WARN, "left out '%s': %s", full, strerrordesc_np(errno));
    } else if (S_ISDIR(info.st_mode) && depth < DEEPEST) {
        st = visit(w, path, depth + 1);
    } else if (S_ISREG(info.st_mode) && info.st_size > 0 &&
               (!w->headers_only || is_header(slash ? slash + 1 : path))) {
        return add(w, path, (size_t)info.st_size);
    }
    free(path);
    return st;
}

static hr_status visit_open(const walk *w, const char *relative, int depth, DIR *dir)
{
    const struct dirent *e;
    while ((e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char *path = join(relative, e->d_name);
        char *full = path ? join(w->root, path) : NULL;
        if (!full) {
            free(path);
            return no_memory(w);
        }
        hr_status st = entry(w, path, full, depth);
        free(full);
        APP_TRY(st);
    }
    return HR_OK;
}

static hr_status visit(const walk *w, const char *relative, int depth)
{
    char *full = join(w->root, relative);
    if (!full)
        return no_memory(w);
    DIR *dir = opendir(full);
    hr_status st = HR_OK;
    if (dir) {
        st = visit_open(w, relative, depth, dir);
        closedir(dir);
    } else if (depth == 0) {
        st = hr_fail(HR_ERR_IO, "data_unreadable", "cannot read '%s': %s", full,
                     strerrordesc_np(errno));
    } else {
        hr_log(HR_LOG_WARN, "left out '%s': %s", full, strerrordesc_np(errno));
    }
    free(full);
    return st;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const data_file *)a)->path, ((const data_file *)b)->path);
}

hr_status hr_app_data_tree(const char *root, bool headers_only, data_tree *out)
{
    *out = (data_tree){0};
    walk w = {.tree = out, .root = root, .headers_only = headers_only};
    hr_status st = visit(&w, "", 0);
    if (st < 0)
        hr_app_data_tree_free(out);
    else if (out->n > 1)
        qsort(out->file, out->n, sizeof *out->file, by_path);
    return st;
}

void hr_app_data_tree_free(data_tree *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->file[i].path);
    free(t->file);
    *t = (data_tree){0};
}
