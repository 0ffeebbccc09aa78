/* Some of a pipeline's stages, as one types them: "none", "all", "0,4-7". */
#ifndef HR_APP_STAGE_LIST_H
#define HR_APP_STAGE_LIST_H
#include <stdbool.h>

bool hr_app_stage_list_ok(const char *text);
/* Of a text that is. */
bool hr_app_stage_list_has(const char *text, int stage);
int hr_app_stage_list_last(
    const char *text); /* the highest that is named; -1: none is */

#endif
