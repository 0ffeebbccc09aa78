/* Ctrl-C and SIGTERM: the first sets a flag that the trainer looks at before each microbatch; a
 * process that has not ended well under a second later is ended, and a second signal ends it at
 * once. */
#ifndef HR_APP_INTERRUPT_H
#define HR_APP_INTERRUPT_H
#include "headrace/base.h"

hr_status hr_app_interrupt_install(void);
bool hr_app_interrupted(void);
int hr_app_interrupt_signal(void); /* 0: none yet */
/* True for the first who asks: it is theirs to say it. */
bool hr_app_interrupt_tell(void);

/* fn(ctx) runs on a thread of its own once there is a signal, so before the process is ended. One at a
 * time. ERR_NOMEM. */
hr_status hr_app_interrupt_watch(void (*fn)(void *ctx), void *ctx);
/* After it fn does not run any more; where there was a signal it has run. */
void hr_app_interrupt_unwatch(void);

/* What went wrong before a signal came, a line with its end: it is said with the signal. Constant from then on. */
void hr_app_interrupt_after(const char *line);
const char *hr_app_interrupt_cause(void); /* "": nothing did */

#endif
