/* What the parts of a model cost, as `headrace plan --profile` reads it: one JSON object (docs/plan.md).
 *
 * The row of a model is: embedding, decoder layers, layers of multi-token prediction, loss.
 */
#ifndef HR_APP_PROFILE_H
#define HR_APP_PROFILE_H
#include "headrace/base.h"

/* One element of the row, for one microbatch on one rank. */
typedef struct profile_row {
    double forward_us, input_grad_us, weight_grad_us;
    int64_t activation_bytes; /* held from forward to backward */
    int64_t stash_bytes;    /* of these, held on until the weight gradients are done */
    int64_t boundary_bytes; /* its input */
    int64_t param_bytes;    /* parameters with gradients and optimiser state */
} profile_row;

typedef struct profile {
    int layers, mtp;
    int width, heads, experts, top_k, seq; /* what was measured; for the reader */
    int micro_batch_size, ep;
    double transfer_us, latency_us; /* of what goes from one stage to the next */
    profile_row *row;               /* hr_app_profile_rows() of them */
} profile;

int hr_app_profile_rows(const profile *p);

/* Room for the costs of a model of that many layers, all zero. ERR_NOMEM. */
hr_status hr_app_profile_create(int layers, int mtp, profile **out);
void hr_app_profile_destroy(profile *p);

/* Every key has to be there, no other, and every value in its range; `name` opens the sentence that says
 * what is not. Errors: ERR_PARSE, ERR_NOMEM; of a file ERR_IO and ERR_INVALID (too large), too. */
hr_status hr_app_profile_parse(const char *name, const char *text, size_t n,
                               profile **out);
hr_status hr_app_profile_read(const char *path, profile **out);

/* Whole or not at all; what is read again is the same. */
hr_status hr_app_profile_write(const profile *p, const char *path);

#endif
