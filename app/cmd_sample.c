/* headrace sample: read the options, generate, and say how it ended. */
#include "commands.h"
#include "interrupt.h"

int hr_app_cmd_sample(int argc, char *const *argv)
{
    static sample_options o; /* holds several paths: too large for a stack */
    hr_status st = hr_app_options_sample(argc, argv, &o);
    if (st != HR_OK)
        return hr_app_usage("sample", st);
    st = hr_app_interrupt_install();
    return hr_app_finish("sample", st == HR_OK ? hr_app_sample(&o) : st);
}
