/* The nearest of several words, for "did you mean". */
#ifndef HR_APP_NEAREST_H
#define HR_APP_NEAREST_H
#include <stddef.h>

/* Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`. */
int hr_app_edit_distance(const char *a, const char *b);

/* Index of the word nearest to `text`, the first of equals; -1 if there is none. NULL words are left
 * out. */
int hr_app_nearest(const char *text, const char *const *words, int n);

#endif
