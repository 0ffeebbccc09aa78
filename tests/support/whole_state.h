/* whole_state.h: a checkpoint in memory, its tensors whole, whichever files they are in: what tests compare.
 */
#ifndef HR_TEST_WHOLE_STATE_H
#define HR_TEST_WHOLE_STATE_H
#include "checkpoint.h"

typedef struct whole_tensor {
    char name[64];
    int64_t count;
    const float *data;
} whole_tensor;

typedef struct whole_state {
    checkpoint_info info; /* without the schedule */
    whole_tensor *
        list; /* weights and both moments of the whole model, in the order of its catalog */
    int n;
    char *bytes; /* of all of them and of the info; the same bytes are the same state */
    size_t n_bytes;
} whole_state;

hr_status whole_state_read(const char *path, whole_state *out);
void whole_state_fini(whole_state *s);
const whole_tensor *whole_state_find(const whole_state *s, const char *name);

/* What a run has left in the folder of --out, as its bytes; for free(). NULL: hr_last_error(). */
char *whole_state_bytes(const char *out, size_t *n);

#endif
