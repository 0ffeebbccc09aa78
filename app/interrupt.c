/* Signal handlers may touch little: an atomic flag, and _exit. */
#include "interrupt.h"
#include "commands.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static atomic_int caught; /* the signal; 0: none */

static void on_signal(int signal)
{
    if (atomic_exchange(&caught, signal) != 0)
        _exit(EXIT_INTERRUPTED);
}

hr_status hr_app_interrupt_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, &action, NULL) != 0 || sigaction(SIGTERM, &action, NULL) != 0)
        return hr_fail(HR_ERR_STATE, "signal", "cannot handle signals: %s",
                       strerrordesc_np(errno));
    return HR_OK;
}

bool hr_app_interrupted(void)
{
    return atomic_load(&caught) != 0;
}

int hr_app_interrupt_signal(void)
{
    return atomic_load(&caught);
}
