/* local_issues.h: with the stream checker on, what each rank of a job issued last, so that ranks
 * that do not issue the same in the same order are told apart before they wait for each other:
 *
 *  - the n-th collective of a group belongs to one node on one rank and to another elsewhere;
 *  - two collectives of two groups, on one stream, in one order on one rank and in the other
 *    order on another: each stream waits in the one for a peer that waits in the other.
 *
 * What is found fails the job with ERR_STATE "collective_order", at issue, whatever ran when. */
#ifndef HR_LOCAL_ISSUES_H
#define HR_LOCAL_ISSUES_H
#include "group/local/local_channel.h"

typedef struct hr__issues hr__issues;

hr__issues *hr__issues_create(int ranks); /* NULL: no memory */
void hr__issues_destroy(hr__issues *is);  /* NULL is fine */
void hr__issues_clear(hr__issues *is);    /* hr_job_reset(): nothing is under way */

/* The member issues a collective on `s` now. */
void hr__issues_note(hr__issues *is, hr__member *m, hr__op_kind kind,
                     const hr_stream *s);

#endif
