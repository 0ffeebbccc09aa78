/* Any bytes as a file of options: refused with a sentence, or taken; never a crash. */
#include "config_json.h"
#include "options.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    train_options options;
    option_set given = 0;
    hr_app_option_defaults(&hr_app_train_table, &options);
    hr_error_clear();
    hr_status st = hr_app_config_parse(&hr_app_train_table, "fuzz.json",
                                       (const char *)bytes, n, &options, &given);
    if (st < 0 && hr_last_error()[0] == '\0')
        abort();
    return 0;
}
