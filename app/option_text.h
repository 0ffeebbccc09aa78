/* The value of an option as one would type it, by its table. */
#ifndef HR_APP_OPTION_TEXT_H
#define HR_APP_OPTION_TEXT_H
#include "option_spec.h"

/* To `to`; a text as it is, so it may hold anything but 0. */
void hr_app_option_put(const option_spec *spec, const void *target, FILE *to);

#endif
