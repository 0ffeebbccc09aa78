/* Any bytes as a CSV of PyTorch's pipelining: refused with a sentence, or what is written of it
 * reads as the same schedule, and check and simulation end on it. */
#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    hr_schedule *s = NULL;
    hr_schedule *again = NULL;
    hr_figures *figures = NULL;
    char *text = NULL;
    hr_error_clear();
    if (hr_schedule_parse_csv((const char *)bytes, n, &s) < 0) {
        must(s == NULL && hr_last_error()[0] != '\0');
        return 0;
    }
    must(hr_schedule_print_csv(s, &text) == HR_OK);
    must(hr_schedule_parse_csv(text, strlen(text), &again) == HR_OK);
    must(hr_schedule_equal(s, again));
    if (hr_schedule_check(s, NULL, NULL) == HR_OK)
        must(hr_schedule_simulate(s, NULL, &figures) == HR_OK);
    else
        must(hr_last_error()[0] != '\0');
    hr_figures_destroy(figures);
    free(text);
    hr_schedule_destroy(again);
    hr_schedule_destroy(s);
    return 0;
}
