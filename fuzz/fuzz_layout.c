/* Any bytes as a layout by hand, the first two as ranks and placement: refused with a sentence, or
 * every layer stands once and in order, and what is written of it reads as the same. */
#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void holds_each_once(const hr_layout *l)
{
    int layers = 0;
    int mtp = 0;
    int ends = 0;
    for (int s = 0; s < hr_layout_stages(l); s++) {
        hr_layout_part p;
        must(hr_layout_get(l, s, &p) == HR_OK);
        must(p.layers == 0 || p.first_layer == layers);
        must(p.mtp == 0 || p.first_mtp == mtp);
        layers += p.layers;
        mtp += p.mtp;
        ends += p.embedding + p.loss;
    }
    must(layers == hr_layout_layers(l) && mtp == hr_layout_mtp(l) && ends == 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n < 2)
        return 0;
    hr_layout_opts opts = {HR_INIT(hr_layout_opts), .ranks = bytes[0] % 8 + 1,
                           .placement =
                               bytes[1] % 2 ? HR_PLACEMENT_V : HR_PLACEMENT_LOOP};
    hr_layout *l = NULL;
    hr_layout *again = NULL;
    char *text = NULL;
    char *second = NULL;
    hr_error_clear();
    if (hr_layout_parse((const char *)bytes + 2, n - 2, &opts, &l) < 0) {
        must(l == NULL && hr_last_error()[0] != '\0');
        return 0;
    }
    holds_each_once(l);
    must(hr_layout_print(l, &text) == HR_OK);
    must(hr_layout_parse(text, strlen(text), &opts, &again) == HR_OK);
    must(hr_layout_print(again, &second) == HR_OK);
    must(strcmp(text, second) == 0);
    free(text);
    free(second);
    hr_layout_destroy(again);
    hr_layout_destroy(l);
    return 0;
}
