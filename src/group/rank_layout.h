/* Words of an order of axes ("tp-cp-ep-dp-pp"). */
#ifndef HR_RANK_LAYOUT_H
#define HR_RANK_LAYOUT_H
#include "headrace/group.h"

typedef struct hr__axis_word {
    const char *text;
    int len;
    hr_rank_axis axis; /* HR_RANK_AXES: no axis has that name */
} hr__axis_word;

/* The word at *p, which moves behind the dash after it; NULL after the last word. An empty text is one
 * empty word. */
hr__axis_word hr__axis_word_next(const char **p);

#endif
