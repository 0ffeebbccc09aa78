/* Any bytes as the index of a checkpoint: refused with a sentence, or every piece in it is found by its tensor's
 * name. */
#include "checkpoint_index.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void find_again(const checkpoint_index *x, const index_piece *p)
{
    int n;
    char *name = strndup(p->key, (size_t)p->name);
    const index_piece *found = name ? hr_app_index_find(x, name, &n) : p;
    if (name && (found > p || found + n <= p || p->file >= x->n_files))
        abort();
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    checkpoint_index *x;
    hr_error_clear();
    if (hr_app_index_parse("fuzz", (const char *)bytes, n, &x) < 0) {
        if (hr_last_error()[0] == '\0' || x)
            abort();
        return 0;
    }
    for (int i = 0; i < x->n_pieces; i++)
        find_again(x, &x->pieces[i]);
    hr_app_index_free(x);
    return 0;
}
