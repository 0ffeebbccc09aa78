/* A tensor without a base in place of a view: a view keeps its base alive, and freeing what a
 * node got must not hang on that. */
#include "base/try.h"
#include "headrace/pipeline.h"
#include "trace/probe.h"

hr_status hr_make_viewless(hr_tensor *t, hr_tensor **out)
{
    *out = NULL;
    if (t == NULL)
        return hr_fail(HR_ERR_INVALID, "no_tensor", "hr_make_viewless: no tensor");
    if (hr_tensor_base(t) == NULL) {
        *out = hr_tensor_retain(t);
        return HR_OK;
    }
    hr_tensor *made;
    HR_TRY(hr_tensor_alias(t, &made));
    hr_status st = hr_tensor_share_graph(t, made);
    if (st < 0) {
        hr_tensor_release(made);
        return st;
    }
    HR_PROBE(.kind = HR_PROBE_VIEWLESS, .a = t, .b = made);
    *out = made;
    return HR_OK;
}
