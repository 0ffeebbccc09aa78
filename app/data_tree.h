/* The files of a tree, by relative path, in byte order of that path. */
#ifndef HR_APP_DATA_TREE_H
#define HR_APP_DATA_TREE_H
#include "headrace/base.h"

typedef struct data_file {
    char *path; /* relative to the root */
    size_t bytes;
} data_file;

typedef struct data_tree {
    data_file *file;
    size_t n, room;
} data_tree;

/* Regular files under `root` that are not empty; symbolic links are not followed, so no file comes
 * twice and no loop is possible. `headers_only`: see data.h. Folders that cannot be read are left out
 * with a warning, unless it is `root`. */
hr_status hr_app_data_tree(const char *root, bool headers_only, data_tree *out);
void hr_app_data_tree_free(data_tree *t);

#endif
