/* How a sub-command ends: its exit status and its last line. */
#include "commands.h"
#include "interrupt.h"

int hr_app_usage(const char *command, hr_status st)
{
    if (st == HR_PENDING) /* --help was asked for and given */
        return hr_app_finish(command, st);
    fprintf(stderr, "headrace %s: %s\n", command, hr_last_error());
    return EXIT_USAGE;
}

int hr_app_finish(const char *command, hr_status st)
{
    /* First, so that in a log of both what went wrong is the last line. */
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (hr_app_interrupted()) {
        if (hr_app_interrupt_tell())
            fprintf(stderr, "%sheadrace %s: interrupted by signal %d\n",
                    hr_app_interrupt_cause(), command, hr_app_interrupt_signal());
        return EXIT_INTERRUPTED;
    }
    if (st >= 0 && !written)
        st = hr_fail(HR_ERR_IO, "stdout", "cannot write to standard output");
    if (st < 0) {
        fprintf(stderr, "headrace %s: failed: %s\n", command, hr_last_error());
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
