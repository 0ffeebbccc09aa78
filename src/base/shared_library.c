/* See shared_library.h. */
#include "base/shared_library.h"

#include <dlfcn.h>
#include <string.h>

void *hr__library_open(const char *path, const char *const *usual, size_t n)
{
    void *library = NULL;
    if (path && path[0])
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < n && library == NULL; i++)
        library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

/* ISO C has no cast from object to function. */
const char *hr__library_fill(void *library, void *table, const hr__symbol *symbols,
                             size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *f = dlsym(library, symbols[i].name);
        if (f == NULL)
            return symbols[i].name;
        memcpy((char *)table + symbols[i].at, &f, sizeof f);
    }
    return NULL;
}
