/* Any bytes as a profile: refused with a sentence, or taken and then written so that it reads as the same. */
#include "profile.h"
#include "whole_text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* The text that is written of it, in a file of this process. */
static char *written(const profile *p, size_t *n)
{
    char path[64];
    char *text = NULL;
    snprintf(path, sizeof path, "/tmp/fuzz_profile.%ld", (long)getpid());
    must(hr_app_profile_write(p, path) == HR_OK);
    must(hr_app_read_file(path, 64 << 20, &text, n) == HR_OK);
    unlink(path);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    profile *p = NULL, *again = NULL;
    hr_error_clear();
    if (hr_app_profile_parse("fuzz.json", (const char *)bytes, n, &p) < 0) {
        must(p == NULL && hr_last_error()[0] != '\0');
        return 0;
    }
    size_t once = 0, twice = 0;
    char *first = written(p, &once);
    must(hr_app_profile_parse("again.json", first, once, &again) == HR_OK);
    char *second = written(again, &twice);
    must(once == twice && memcmp(first, second, once) == 0);
    free(first);
    free(second);
    hr_app_profile_destroy(p);
    hr_app_profile_destroy(again);
    return 0;
}
