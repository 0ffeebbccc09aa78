/* A schedule that a file holds, in the format that its name says. */
#ifndef HR_APP_SCHEDULE_FILE_H
#define HR_APP_SCHEDULE_FILE_H
#include "headrace/schedule.h"

/* The CSV where `path` ends so (hr_app_is_csv()), else our text. `option` is what names it, for messages.
 * Errors: of hr_app_read_file() and of parsing. */
hr_status hr_app_schedule_read(const char *option, const char *path, hr_schedule **out);
/* `st`, with option and file before what went wrong. */
hr_status hr_app_schedule_at(const char *option, const char *path, hr_status st);

#endif
