/* checkpoint_index.h: the list of what a checkpoint of several files holds,
 * model.safetensors.index.json, in the form in which Hugging Face writes it: "metadata", and in
 * "weight_map" for each tensor its file. Ours says more:
 *
 *     "metadata"     beside total_size what the run was, and a checksum of all of the index
 *     "files"        of each file its bytes and the checksum of its header
 *     "weight_map"   a tensor of which a file has a piece is named NAME[first:last], by elements of the whole, row
 *                    by row; all pieces of a tensor together are the whole, each element once
 */
#ifndef HR_APP_CHECKPOINT_INDEX_H
#define HR_APP_CHECKPOINT_INDEX_H
#include "safetensors.h"

#define INDEX_NAME "model.safetensors.index.json"

typedef struct index_file {
    const char *name; /* in the folder of the index */
    st_identity identity;
} index_file;

typedef struct index_piece {
    const char *key; /* in the file: "embedding", "experts[0:64]" */
    int name;        /* bytes of the key that are the tensor's name */
    int64_t first;
    int64_t last; /* behind the last element; INDEX_WHOLE */
    int file;     /* in files */
} index_piece;
enum { INDEX_WHOLE = -1 };

typedef struct checkpoint_index {
    char *path; /* for messages */
    void *root; /* owns the texts */
    index_file *files;
    index_piece *pieces; /* of one tensor side by side, in order */
    int n_files, n_pieces;
} checkpoint_index;

/* Errors: ERR_PARSE, naming the file and what in it: no such JSON, two files with the same elements,
 * elements in none, a file that is not listed, another checksum. */
hr_status hr_app_index_parse(const char *path, const char *text, size_t n,
                             checkpoint_index **out);
void hr_app_index_free(checkpoint_index *x); /* NULL is fine */

/* The pieces of tensor `name`, *n of them; NULL: there are none. */
const index_piece *hr_app_index_find(const checkpoint_index *x, const char *name,
                                     int *n);
const char *hr_app_index_meta(const checkpoint_index *x, const char *key); /* or NULL */

/* The index over `n` files that are there, as text; *out is the caller's, for free(). `at[i]` is
 * names[i], opened. */
hr_status hr_app_index_format(const st_meta *meta, int n_meta, const char *const *names,
                              safetensors *const *at, int n, char **out);

#endif
