/* headrace train: read the options, run, and say how it ended. */
#include "commands.h"
#include "interrupt.h"
#include "launcher.h"
#include "run_pipeline.h"
#include "train_process.h"
#include <string.h>

/* What only the schedule and the layout show to be impossible is a wrong option, too. */
static hr_status check_pipeline(const train_options *o)
{
    pipeline p;
    hr_status st = hr_app_pipeline_make(o, &p);
    if (st != HR_OK)
        return st;
    if (o->profile[0] && p.stages > 1)
        st = hr_fail(
            HR_ERR_INVALID, "profile_stages",
            "--profile %s: a layer is measured in a model of one stage, this one "
            "has %d; the nearest valid values are --pp 1 --vp 0",
            o->profile, p.stages);
    hr_app_pipeline_fini(&p);
    return st;
}

/* Of several processes one prints. A stream that cannot be had stays as it is. */
static void be_silent(void)
{
    FILE *nowhere = freopen("/dev/null", "w", stdout);
    (void)nowhere;
}

int hr_app_cmd_train(int argc, char *const *argv)
{
    static train_options o; /* holds several paths: too large for a stack */
    bool shared = hr_app_launch_is_shared();
    if (shared && hr_app_launch_rank() > 0)
        be_silent();
    hr_status st = hr_app_options_train(argc, argv, &o);
    if (st == HR_OK)
        st = check_pipeline(&o);
    if (st == HR_PENDING || (st != HR_OK && !shared))
        return hr_app_usage("train", st);
    hr_status handled = hr_app_interrupt_install();
    if (shared || strcmp(o.device, "cuda") == 0)
        o.link_gbps = o.link_us = 0; /* there is a real one */
    if (shared) {
        return hr_app_train_process(&o, st == HR_OK ? handled : st);
    }
    if (handled == HR_OK)
        handled = o.dry_run ? hr_app_dry_run(&o) : hr_app_train(&o);
    return hr_app_finish("train", handled);
}
