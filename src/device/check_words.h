/* check_words.h: the sentences of the stream checker. Each names the work (node, layer,
 * microbatch, launch), its stream, the memory, and what is missing between the two. */
#ifndef HR_CHECK_WORDS_H
#define HR_CHECK_WORDS_H
#include "device/check_events.h"
#include "device/check_regions.h"

enum { HR__USE_TEXT = 192 };

/* "'mlp' backward (layer 2, microbatch 3) on 'compute'", or "launch 'fill' on 'b'". */
void hr__words_use(const hr__use *use, char text[HR__USE_TEXT]);

/* These set the calling thread's last error (ERR_STATE). `use` is the new access, `p` where
 * it meets what it conflicts with, `r` where that lies. */
hr_status hr__words_unordered(int rank, const hr__region *r, const char *p,
                              const hr__use *use, const hr__use *old,
                              const hr__lost_record *stale);
hr_status hr__words_early(int rank, const hr__region *r, const char *p,
                          const hr__use *use);
hr_status hr__words_freed(int rank, const hr__region *r, const char *p,
                          const hr__use *use);
hr_status hr__words_unguarded(int rank, const hr__region *r, const char *p,
                              const hr__use *old);

#endif
