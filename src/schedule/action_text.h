/* Single actions and decimals in text, for the text form and for CSV. Internal to src/schedule. */
#ifndef HR_ACTION_TEXT_H
#define HR_ACTION_TEXT_H
#include "schedule/schedule_impl.h"

#include <stdio.h>

/* One slot in text: "3F7", "2UNSHARD", "(0F7;7B3)". `suffix` is what has to follow a pair's
 * parenthesis. */
typedef struct hr__slot_text {
    hr_action a[HR__MAX_PAIR];
    int n;
    bool pair;
} hr__slot_text;

/* Read the whole of [at, end), without blanks at its ends. Returns NULL, or why it is no slot. */
const char *hr__slot_read(const char *at, const char *end, const char *suffix,
                          hr__slot_text *out);

/* "3F7" into `buf` of HR__ACTION_TEXT; returns `buf`. */
const char *hr__action_print(const hr_action *a, char *buf);
/* The slot that starts at `a`. */
void hr__slot_print(FILE *f, const hr_action *a, const char *suffix);

/* Decimal of a number of units with at most six places, as ticks. Returns false if it is none,
 * or is above a million units. */
bool hr__ticks_read(const char *at, const char *end, int64_t *out);
void hr__ticks_print(FILE *f, int64_t ticks);

/* Digits alone, at most `most`. */
bool hr__number_read(const char *at, const char *end, int64_t most, int64_t *out);

#endif
