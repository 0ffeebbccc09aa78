/* Any bytes as our text form: refused with a sentence, or what is written of it reads as the same
 * schedule and is written the same once more, and check, simulation and lowering end on it. */
#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void survives(const hr_schedule *s)
{
    hr_schedule *again = NULL;
    char *text = NULL;
    char *second = NULL;
    must(hr_schedule_print(s, &text) == HR_OK);
    must(hr_schedule_parse(text, strlen(text), &again) == HR_OK);
    must(hr_schedule_equal(s, again));
    must(hr_schedule_print(again, &second) == HR_OK);
    must(strcmp(text, second) == 0);
    free(text);
    free(second);
    hr_schedule_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    hr_schedule *s = NULL;
    hr_schedule *lowered = NULL;
    hr_figures *figures = NULL;
    hr_error_clear();
    if (hr_schedule_parse((const char *)bytes, n, &s) < 0) {
        must(s == NULL && hr_last_error()[0] != '\0');
        return 0;
    }
    survives(s);
    if (hr_schedule_simulate(s, NULL, &figures) < 0)
        must(figures == NULL && hr_last_error()[0] != '\0');
    hr_figures_destroy(figures);
    if (hr_schedule_check(s, NULL, NULL) == HR_OK && !hr_schedule_is_lowered(s)) {
        must(hr_schedule_lower(s, NULL, &lowered) == HR_OK);
        must(hr_schedule_check(lowered, NULL, NULL) == HR_OK);
    }
    hr_schedule_destroy(lowered);
    hr_schedule_destroy(s);
    return 0;
}
