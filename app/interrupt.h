/* Ctrl-C and SIGTERM: the first sets a flag that the trainer looks at before each microbatch; a
 * process that has not ended well under a second later is ended, and a second signal ends it at
 * once. */
#ifndef HR_APP_INTERRUPT_H
#define HR_APP_INTERRUPT_H
#include "headrace/base.h"

hr_status hr_app_interrupt_install(void);
bool hr_app_interrupted(void);
int hr_app_interrupt_signal(void); /* 0: none yet */

#endif
