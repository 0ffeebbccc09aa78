/* headrace train: read the options, run, and say how it ended. */
#include "commands.h"
#include "interrupt.h"

int hr_app_cmd_train(int argc, char *const *argv)
{
    static train_options o; /* holds several paths: too large for a stack */
    hr_status st = hr_app_options_train(argc, argv, &o);
    if (st == HR_PENDING)
        return EXIT_DONE;
    if (st < 0) {
        fprintf(stderr, "headrace train: %s\n", hr_last_error());
        return EXIT_USAGE;
    }
    st = hr_app_interrupt_install();
    if (st == HR_OK)
        st = hr_app_train(&o);
    if (hr_app_interrupted()) {
        fprintf(stderr, "headrace train: interrupted by signal %d\n",
                hr_app_interrupt_signal());
        return EXIT_INTERRUPTED;
    }
    if (st < 0) {
        fprintf(stderr, "headrace train: failed: %s\n", hr_last_error());
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
