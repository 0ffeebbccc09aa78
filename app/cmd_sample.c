/* headrace sample: read the options, generate, and say how it ended. */
#include "commands.h"
#include "interrupt.h"

int hr_app_cmd_sample(int argc, char *const *argv)
{
    static sample_options o; /* holds several paths: too large for a stack */
    hr_status st = hr_app_options_sample(argc, argv, &o);
    if (st == HR_PENDING)
        return EXIT_DONE;
    if (st < 0) {
        fprintf(stderr, "headrace sample: %s\n", hr_last_error());
        return EXIT_USAGE;
    }
    st = hr_app_interrupt_install();
    if (st == HR_OK)
        st = hr_app_sample(&o);
    if (hr_app_interrupted()) {
        fprintf(stderr, "headrace sample: interrupted by signal %d\n",
                hr_app_interrupt_signal());
        return EXIT_INTERRUPTED;
    }
    if (st < 0) {
        fprintf(stderr, "headrace sample: failed: %s\n", hr_last_error());
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
