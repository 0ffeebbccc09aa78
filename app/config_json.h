/* Options from a JSON file: one object whose keys are the names of options, without dashes.
 *
 *     {"steps": 200, "overlap": "off", "lr": 1e-3}
 *
 * on|off may be true|false.
 */
#ifndef HR_APP_CONFIG_JSON_H
#define HR_APP_CONFIG_JSON_H
#include "option_spec.h"

/* Checks every key of the file `path`, and stores those that are not among `given` in `target`; then
 * adds its keys to *given. Errors: ERR_IO; ERR_PARSE with line and column; ERR_INVALID for a key or a
 * value, with the nearest valid one. */
hr_status hr_app_config_read(const option_table *t, const char *path, void *target,
                             option_set *given);

/* The same of `n` bytes in memory; `name` stands for the path in messages. */
hr_status hr_app_config_parse(const option_table *t, const char *name, const char *text,
                              size_t n, void *target, option_set *given);

#endif
