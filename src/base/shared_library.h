/* shared_library.h: a library that is loaded when it is first needed, and a table of its functions that its own header
 * types: nothing of ours needs it, and another one can take its place by its path.
 *
 *     #define MAP(X) X(fooCreate) X(fooDestroy)
 *     typedef struct foo { MAP(HR__SYMBOL_FIELD) } foo;
 *     #define X(name) HR__SYMBOL_OF(foo, name)
 *     static const hr__symbol symbols[] = {MAP(X)};
 */
#ifndef HR_SHARED_LIBRARY_H
#define HR_SHARED_LIBRARY_H
#include <stddef.h>

typedef struct hr__symbol {
    const char *name;
    size_t at; /* of its address in the table */
} hr__symbol;

/* Twice, so that a name which the header defines as another one is looked up as that. */
#define HR__SYMBOL_TEXT_OF(name)   #name
#define HR__SYMBOL_TEXT(name)      HR__SYMBOL_TEXT_OF(name)
#define HR__SYMBOL_OF(table, name) {HR__SYMBOL_TEXT(name), offsetof(table, name)},
#define HR__SYMBOL_FIELD(name)     __typeof__(&name) name;

/* The library at `path`; if that is NULL or "", the first of the n `usual` ones that the loader has. NULL:
 * dlerror() says why the last could not be had. It stays open: closing one that has threads of its own is what
 * such libraries are not made for. */
void *hr__library_open(const char *path, const char *const *usual, size_t n);

/* Fill in the table. NULL, or the first name that the library lacks. */
const char *hr__library_fill(void *library, void *table, const hr__symbol *symbols,
                             size_t n);

#endif
