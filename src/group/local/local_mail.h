/* local_mail.h: sends of the buffered manner. A send is copied into a parcel that hangs where its
 * receiver looks, behind those that hang there already; the receiver frees it. So a list outlives
 * its sender's batch, and both ends change it: under one lock a channel. */
#ifndef HR_LOCAL_MAIL_H
#define HR_LOCAL_MAIL_H
#include "group/local/local_channel.h"

/* Copy the send `g` of `m` and hang it. ERR_NOMEM. */
hr_status hr__mail_send(hr__member *m, const hr__msg *g);
/* The first of the list has been received. */
void hr__mail_drop(hr__channel *ch, _Atomic(hr__msg *) *head);
/* What nobody has received. Nothing runs. */
void hr__mail_clear(hr__channel *ch);

#endif
