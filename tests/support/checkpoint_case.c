/* checkpoint_case.c: see checkpoint_case.h. */
#include "support/checkpoint_case.h"
#include "app_try.h"
#include <string.h>

static hr_status fetch(void *case_file_, int i, void *host)
{
    const case_file *f = case_file_;
    memcpy(host, f->data[i], hr_app_safetensors_bytes(&f->tensors[i]));
    return HR_OK;
}

hr_status checkpoint_case_write(const char *out, const checkpoint_info *info, int keep,
                                const case_file *files, int n)
{
    checkpoint_draft d;
    APP_TRY(hr_app_draft_begin(out, info->step, &d));
    for (int i = 0; i < n; i++) {
        case_file file = files[i];
        checkpoint_part part = {.number = i + 1,
                                .of = n,
                                .tensors = file.tensors,
                                .n = file.n,
                                .fetch = fetch,
                                .ctx = &file};
        hr_status st = hr_app_checkpoint_write_part(d.temp, info, &part);
        if (st < 0) {
            hr_app_draft_discard(&d);
            return st;
        }
    }
    return hr_app_checkpoint_seal(&d, info, keep, n, NULL, NULL);
}
