/* All bytes of a file in memory. */
#ifndef HR_APP_WHOLE_TEXT_H
#define HR_APP_WHOLE_TEXT_H
#include "headrace/base.h"

/* *bytes is the caller's, for free(), and has a zero behind its end. A file of more than `most` bytes
 * is ERR_INVALID. Errors: ERR_IO with path and cause (missing, a folder, no permission, ...). */
hr_status hr_app_read_file(const char *path, size_t most, char **bytes, size_t *n);

/* Whether its name ends in .csv, in whatever case. */
bool hr_app_is_csv(const char *path);

/* The first bytes of a file, at most `room`, into the caller's memory; fewer only where it ends. */
hr_status hr_app_read_into(const char *path, void *bytes, size_t room, size_t *n);

#endif
