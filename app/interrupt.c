/* Signal handlers may touch little: an atomic flag, a timer made before, write and _exit. Whoever
 * looks at the flag has GRACE_MS to end in order. After that the process ends here, whatever runs:
 * a kernel, a slow link. Files are whole at any time (hr_file_begin), so nothing is lost by it. */
#include "interrupt.h"
#include "commands.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 600 };

static atomic_int caught; /* the signal; 0: none */
static atomic_bool told;  /* somebody has said so */
static timer_t grace;     /* set before the handlers are, then constant */
static _Atomic(const char *) cause;

static struct {
    sem_t
        wake; /* posted by the first signal, and to end; made before the handlers are set */
    pthread_t thread;
    void (*fn)(void *ctx);
    void *ctx;
} watch;

static void on_signal(int signal)
{
    struct itimerspec once = {.it_value = {.tv_nsec = GRACE_MS * 1000000L}};
    int before = errno;
    if (atomic_exchange(&caught, signal) != 0 ||
        timer_settime(grace, 0, &once, NULL) != 0)
        _exit(EXIT_INTERRUPTED);
    sem_post(&watch.wake);
    errno = before;
}

static void put(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* nobody is left to hear that it failed */
}

static void on_grace_over(int signal)
{
    bool term = atomic_load(&caught) == SIGTERM;
    if (hr_app_interrupt_tell()) {
        put(hr_app_interrupt_cause());
        put(term ? "headrace: interrupted by signal 15\n"
                 : "headrace: interrupted by signal 2\n");
    }
    _exit(EXIT_INTERRUPTED);
}

hr_status hr_app_interrupt_install(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct sigaction over = {.sa_handler = on_grace_over},
                     action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&over.sa_mask);
    sigemptyset(&action.sa_mask);
    if (sem_init(&watch.wake, 0, 0) != 0 ||
        timer_create(CLOCK_MONOTONIC, &event, &grace) != 0 ||
        sigaction(SIGALRM, &over, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0 ||
        sigaction(SIGTERM, &action, NULL) != 0 ||
        signal(SIGXFSZ, SIG_IGN) ==
            SIG_ERR) /* write() tells of the limit and says EFBIG */
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

bool hr_app_interrupt_tell(void)
{
    return !atomic_exchange(&told, true);
}

void hr_app_interrupt_after(const char *line)
{
    atomic_store(&cause, line);
}

const char *hr_app_interrupt_cause(void)
{
    const char *line = atomic_load(&cause);
    return line ? line : "";
}

/* ---- the watch ------------------------------------------------------------------------------ */

static void *stand_watch(void *none)
{
    while (sem_wait(&watch.wake) != 0)
        ;
    if (hr_app_interrupted())
        watch.fn(watch.ctx);
    return NULL;
}

hr_status hr_app_interrupt_watch(void (*fn)(void *ctx), void *ctx)
{
    watch.fn = fn;
    watch.ctx = ctx;
    int err = pthread_create(&watch.thread, NULL, stand_watch, NULL);
    return err ? hr_fail(HR_ERR_NOMEM, NULL, "no thread to wait for signals: %s",
                         strerrordesc_np(err))
               : HR_OK;
}

void hr_app_interrupt_unwatch(void)
{
    sem_post(&watch.wake);
    pthread_join(watch.thread, NULL);
}
